"""The parts of a pod spec that Mesos' messages describe: its container, executor and files to fetch."""

from __future__ import annotations

from collections.abc import Iterator

from mesos.v1 import mesos_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.apachemesos import apachemesos_pb2
from peloton.api.v1alpha.volume import volume_pb2
from peloton.errors import InvalidArgument

_Mesos = apachemesos_pb2.PodSpec
_Info = mesos_pb2.ContainerInfo
_DOCKER_NETWORKS = {
    _Mesos.NetworkSpec.NETWORK_TYPE_HOST: _Info.DockerInfo.HOST,
    _Mesos.NetworkSpec.NETWORK_TYPE_BRIDGE: _Info.DockerInfo.BRIDGE,
    _Mesos.NetworkSpec.NETWORK_TYPE_NONE: _Info.DockerInfo.NONE,
    _Mesos.NetworkSpec.NETWORK_TYPE_USER: _Info.DockerInfo.USER,
}


def container_info(
    pod: pod_pb2.PodSpec, container: pod_pb2.ContainerSpec, path: str
) -> mesos_pb2.ContainerInfo | None:
    """Return the container in Mesos' form: `container` where that is given, with the mounted volumes.

    None where the command runs as a plain process of the agent. Raises InvalidArgument for a mount of a
    volume that the pod does not have, and for a Docker container without an image.
    """
    info = mesos_pb2.ContainerInfo()
    if container.HasField("container"):
        info.CopyFrom(container.container)
    elif container.image or pod.mesos_spec.type or container.volume_mounts:
        _describe(info, pod.mesos_spec, container.image, path)
    else:
        return None
    for i, mount in enumerate(container.volume_mounts):
        info.volumes.append(_volume(pod, mount, f"{path}.volume_mounts[{i}]"))
    return info


def executor_info(pod: pod_pb2.PodSpec, path: str) -> mesos_pb2.ExecutorInfo | None:
    """Return the pod's executor: the container's `executor` where that is given.

    Raises InvalidArgument for an executor that is not the user's own.
    """
    if pod.containers and pod.containers[0].HasField("executor"):
        return pod.containers[0].executor
    if not pod.mesos_spec.HasField("executor_spec"):
        return None
    given = pod.mesos_spec.executor_spec
    if given.type != _Mesos.ExecutorSpec.EXECUTOR_TYPE_CUSTOM:
        raise InvalidArgument(f"{path}.mesos_spec.executor_spec.type", given.type, "EXECUTOR_TYPE_CUSTOM (2)")
    return mesos_pb2.ExecutorInfo(
        type=mesos_pb2.ExecutorInfo.CUSTOM,
        executor_id=mesos_pb2.ExecutorID(value=given.executor_id),
        data=given.data,
    )


def fetched(mesos_spec: apachemesos_pb2.PodSpec) -> Iterator[mesos_pb2.CommandInfo.URI]:
    """Yield the files that the agent fetches before the start."""
    for uri in mesos_spec.uris:
        yield mesos_pb2.CommandInfo.URI(
            value=uri.value,
            executable=uri.executable,
            extract=uri.extract,
            cache=uri.cache,
            output_file=uri.output_file or None,
        )


def _describe(info: _Info, mesos_spec: apachemesos_pb2.PodSpec, image: str, path: str) -> None:
    if mesos_spec.type == _Mesos.CONTAINER_TYPE_DOCKER:
        if not image:
            raise InvalidArgument(
                f"{path}.image", image, "the name of an image, which a Docker container has"
            )
        info.type = _Info.DOCKER
        info.docker.image = image
        if mesos_spec.network_spec.type in _DOCKER_NETWORKS:
            info.docker.network = _DOCKER_NETWORKS[mesos_spec.network_spec.type]
        for parameter in mesos_spec.docker_parameters:
            info.docker.parameters.add(key=parameter.key, value=parameter.value)
    else:
        info.type = _Info.MESOS
        if image:
            info.mesos.image.type = mesos_pb2.Image.DOCKER
            info.mesos.image.docker.name = image
    if mesos_spec.network_spec.type == _Mesos.NetworkSpec.NETWORK_TYPE_USER:
        info.network_infos.add(name=mesos_spec.network_spec.name)


def _volume(pod: pod_pb2.PodSpec, mount: pod_pb2.VolumeMount, path: str) -> mesos_pb2.Volume:
    volume = next((each for each in pod.volumes if each.name == mount.name), None)
    if volume is None:
        raise InvalidArgument(f"{path}.name", mount.name, "the name of one of the pod's volumes")
    mode = mesos_pb2.Volume.RO if mount.read_only else mesos_pb2.Volume.RW
    result = mesos_pb2.Volume(mode=mode, container_path=mount.mount_path)
    if volume.type == volume_pb2.VolumeSpec.VOLUME_TYPE_HOST_PATH:
        result.host_path = volume.host_path.path
    else:
        result.source.type = mesos_pb2.Volume.Source.SANDBOX_PATH
        result.source.sandbox_path.type = mesos_pb2.Volume.Source.SandboxPath.SELF
        result.source.sandbox_path.path = volume.name
    return result
