"""SchedulingService: what jobs are ordered by."""

from __future__ import annotations

from peloton.model.priority import PriorityClasses, highest_first
from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb
from peloton.private.jobmgr.scheduling import scheduling_pb2_grpc


class SchedulingService(scheduling_pb2_grpc.SchedulingServiceServicer):
    """Tells of the priority classes."""

    def __init__(self, classes: PriorityClasses) -> None:
        """Serve these classes."""
        self._classes = classes

    async def ListPriorityClasses(
        self, request: pb.ListPriorityClassesRequest, context: object
    ) -> pb.ListPriorityClassesResponse:
        """Return the priority classes, the highest first."""
        return pb.ListPriorityClassesResponse(
            classes=[
                pb.PriorityClass(name=each.name, priority=each.priority, description=each.description)
                for each in highest_first(self._classes)
            ]
        )
