# Every target sets up what it needs by itself, in .venv, with pinned versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The tests of whole clusters mostly wait: four workers keep two cores busy.
WORKERS := -n 4 --no-loadscope-reorder
PROTOS := $(shell find proto -name '*.proto')
# Tests start hundreds of processes: none should compile what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup compiled lint test test-extended test-all test-compiled web-browser test-web screenshots test-clients test-containers test-kubernetes kubernetes-server kubectl kubernetes-client container-engine clients faults simulate-faults fuzz demo demo-secure demo-elastic demo-ml demo-spark spark test-spark frameworks test-workloads test-hosts minicluster bench descriptors settings spec docs diagrams dashboards sbom locks images images-check audit clean publish

setup: $(READY)

# The locked files follow pyproject.toml and constraints.txt: these say when to install again.
$(READY): pyproject.toml setup.py constraints.txt $(PROTOS) | locks/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; call make PYTHON=...")'
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r locks/dev.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . --config-settings editable_mode=compat
	@touch $@

# Needs a C compiler; without one it says so. PELOTON_COMPILED=1 runs what it makes, in .compiled.
compiled: $(READY)
	@$(BIN)/python -m tools.compiled

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports --no-cache

test: $(READY)
	$(BIN)/python -m pytest $(or $(ARGS),-m "not long and not extended" $(WORKERS))

# What takes long and has no shorter test that stands for it: more faults, a scan for secrets, many launches.
test-extended: $(READY) kubernetes-client
	$(BIN)/python -m pytest $(or $(ARGS),-m extended -n 2)

COMPILED_TESTS = $(addprefix tests/unit/,resmgr resmgr_fairshare resmgr_preemption placement jobmgr_core hostmgr wire) \
	$(addprefix tests/property/,jobmgr placement hostmgr wire) tests/contract/mesos_driver

# Tests of what is compiled, on it; ARGS names others.
test-compiled: compiled
	PELOTON_COMPILED=1 $(BIN)/python -m pytest $(or $(ARGS),$(COMPILED_TESTS) -n 2)

# With the tests marked as long: more of what shorter tests try, too.
test-all: $(READY)
	$(BIN)/python -m pytest $(or $(ARGS),$(WORKERS))

# Needs Go, for the Java client Java 17 and Maven; for the cluster's ZooKeeper the latter two. What is compiled may take minutes.
test-clients: clients
	$(BIN)/python -m pytest tests/clients -o python_files='check_*.py' --timeout 1200 $(ARGS)

# An engine, images and whole clusters in containers. What is made once takes about ten minutes; needs root, Go and Maven.
test-containers: $(READY) container-engine clients
	$(BIN)/python -m pytest tests/containers -o python_files='check_*.py' --timeout 1800 $(ARGS)

# A real API server of Kubernetes with kubelets that run processes; says so where the server was not built.
test-kubernetes: $(READY)
	@tools/test-kubernetes $(abspath $(BIN)/python) $(ARGS)

# etcd and the API server from their Go modules, into ~/.cache/peloton. Needs Go; takes long, once.
kubernetes-server:
	@tools/kubernetes-server

# kubectl from its Go modules, into ~/.cache/peloton, for the test of the API in Kubernetes' style. Needs Go.
kubectl:
	@tools/kubectl

# The official Python client of Kubernetes, 8 MB, for the same test, in an environment of its own.
kubernetes-client: build/kubernetes-client/.ready

container-engine:
	@tools/container-engine

clients: $(READY)
	$(BIN)/python -m tools.clients go python java

web-browser:
	@tools/web-browser

test-web: $(READY) web-browser
	$(BIN)/python -m pytest tests/web $(ARGS)

screenshots: $(READY) web-browser
	@$(BIN)/python -m tests.web.screenshots

# docs/clients.md has the variables.
publish: clients
	@PYTHON_INDEX='$(PYTHON_INDEX)' MAVEN_REPOSITORY='$(MAVEN_REPOSITORY)' MAVEN_SERVER='$(MAVEN_SERVER)' GO_PROXY='$(GO_PROXY)' \
	  GO_MODULE='$(GO_MODULE)' JAVA_GROUP='$(JAVA_GROUP)' $(BIN)/python -m tools.publish

# Connections are cut on purpose: gRPC's C core would write a line about each.
faults: $(READY)
	@GRPC_VERBOSITY=NONE $(BIN)/python -m tests.faults $(ARGS)

# All daemons on a virtual clock, with faults drawn by seeds: 2,000 seeds take some minutes. `--mutations` plants bugs,
# each of which must be found. A failure prints the line that repeats it.
simulate-faults: $(READY)
	@$(BIN)/python -m simulator.faults $(ARGS)

# One million inputs take about half an hour on two cores. SEED repeats a run.
fuzz: $(READY)
	@$(BIN)/python -m tests.fuzz $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(ARGS)

demo: $(READY)
	@$(BIN)/python -m minicluster.demo.batch $(ARGS)

demo-secure: $(READY)
	@$(BIN)/python -m minicluster.demo.batch --secure

demo-elastic: $(READY)
	@$(BIN)/python -m minicluster.demo.elastic

# An environment that was interrupted while it was made is made anew: pip takes what it has begun for installed.
FRESH = test -e $@ || rm -rf $(@D); rm -f $@; test -x $(@D)/bin/pip || $(PYTHON) -m venv $(@D)

# Programs of others, each in an environment of its own; the first time they are downloaded: JAX, 150 MB in
# workloads, TensorFlow, 350 MB, and Ray, 90 MB.
WORKLOADS := build/workloads
FRAMEWORKS := $(patsubst %,build/%/.ready,workloads tensorflow ray)

$(FRAMEWORKS) build/kubernetes-client/.ready: build/%/.ready: locks/%.txt
	$(FRESH)
	build/$*/bin/pip install --quiet --disable-pip-version-check --require-hashes -r locks/$*.txt
	touch $@

# Open MPI, mpi4py and PyTorch are Debian's: needs root.
frameworks:
	@tools/frameworks

demo-ml: $(READY) $(WORKLOADS)/.ready
	@$(BIN)/python -m minicluster.demo.training $(WORKLOADS)/bin/python

# A project of others with the client that is a part of it: an environment for each, with the wheels as they are now.
build/host-%/.ready: locks/%.txt
	$(FRESH)
	build/host-$*/bin/pip install --quiet --disable-pip-version-check --require-hashes -r locks/$*.txt
	touch $@

WHEELS := build/clients/python
INSTALL := bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEELS)/peloton_client-[0-9]*.whl

test-hosts: $(READY) build/host-dask/.ready build/host-airflow/.ready
	$(BIN)/python -m tools.clients python
	build/host-dask/$(INSTALL) $(WHEELS)/dask_peloton-*.whl
	build/host-airflow/$(INSTALL) $(WHEELS)/airflow_provider_peloton-*.whl

# Spark of each version, which PyPI has as PySpark, with our jar among its own, and an archive of the classes that
# executors load: they then start with less than half of the CPU. Needs Java 17 and Maven.
SPARK_SOURCES := $(shell find clients/spark clients/java proto/peloton/api -path '*/target' -prune -o -type f -print)

build/clients/spark/.ready: $(SPARK_SOURCES) | $(READY)
	$(BIN)/python -m tools.clients spark
	@touch $@

build/spark-%/.installed: locks/spark-%.txt locks/spark-build.txt
	$(FRESH)
	build/spark-$*/bin/pip install --quiet --disable-pip-version-check --require-hashes -r locks/spark-build.txt
	build/spark-$*/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation -r $<
	@touch $@

build/spark-%/.ready: build/spark-%/.installed build/clients/spark/.ready
	cd build/spark-$*/lib/python3*/site-packages/pyspark/jars && rm -f peloton-spark-*.jar && cp $(abspath build/clients/spark)/peloton-spark-$*-*.jar .
	cd build/spark-$*/lib/python3*/site-packages/pyspark && SPARK_HOME="$$PWD" SPARK_LOCAL_IP=127.0.0.1 \
	  PYSPARK_PYTHON=$(abspath build/spark-$*/bin/python) $(abspath $(BIN))/peloton spark archive $(abspath examples/spark/tables.py) 2000 2 2> $(abspath build/spark-$*)/archive.log \
	  || echo "no archive was made, executors of Spark $* start more slowly: see build/spark-$*/archive.log"
	@touch $@

.PRECIOUS: build/spark-%/.installed

spark: build/spark-3.5/.ready build/spark-4.1/.ready

# Unit tests of the part in Java, which needs Java 17 and Maven.
test-spark: $(READY)
	mvn -q -B -f clients/spark test -Dtest='peloton.spark.*Test' -Dsurefire.failIfNoSpecifiedTests=false

demo-spark: $(READY) build/spark-4.1/.ready
	@$(BIN)/python -m minicluster.demo.spark $(abspath build/spark-4.1)

# ARGS="-k jax" tries one of them; PELOTON_KILLS=20 kills members that often.
test-workloads: $(READY) $(FRAMEWORKS) frameworks test-hosts spark test-spark
	$(BIN)/python -m pytest tests/workloads -o python_files='check_*.py' --timeout 600 $(ARGS)

minicluster: $(READY)
	@$(BIN)/peloton minicluster up $(ARGS)

bench: $(READY)
	@$(BIN)/python benchmarks/throughput.py $(or $(ARGS),--tasks 10000 --hosts 1000)

descriptors: $(READY)
	@mkdir -p build
	@$(BIN)/python -m grpc_tools.protoc -Iproto \
	  -I$$($(BIN)/python -c 'import grpc_tools, pathlib; print(pathlib.Path(grpc_tools.__file__).parent / "_proto")') \
	  --include_imports --descriptor_set_out=build/descriptors.fds $(patsubst proto/%,%,$(PROTOS))
	@echo build/descriptors.fds

# Needs uv (pip install uv).
locks: $(READY)
	@$(BIN)/python -m tools.lock

images:  # looks the digests of base images up and writes them to .env; needs docker
	@$(PYTHON) -m tools.images

images-check:
	@$(PYTHON) -m tools.images --check

audit: $(READY)
	@$(BIN)/python -m tools.audit "$(DB)"

sbom: $(READY)
	$(BIN)/python -m tools.sbom > sbom.json

CLASSES := jobmgr.config:JobmgrSettings resmgr.config:ResmgrSettings placement.config:PlacementSettings \
  hostmgr.config:HostmgrSettings archiver.config:ArchiverSettings peloton.web.config:WebSettings

settings: $(READY)
	$(BIN)/python -m peloton.config.reference $(CLASSES) > docs/settings.md
	$(BIN)/python -m peloton.config.reference --variables $(CLASSES) > peloton/config/variables.py

# A site with navigation and search in build/site; ends with an error where a link leads nowhere.
build/docs/.ready: locks/docs.txt
	test -x build/docs/bin/pip || $(PYTHON) -m venv build/docs
	build/docs/bin/pip install --quiet --disable-pip-version-check --require-hashes -r locks/docs.txt
	touch $@

docs: build/docs/.ready
	$(PYTHON) -m tools.docs
	build/docs/bin/zensical build --clean --strict
	@echo build/site/index.html

spec: $(READY)
	$(BIN)/python -m tools.spec_reference

diagrams: $(READY)
	$(BIN)/python -m tools.diagrams

dashboards: $(READY)
	$(BIN)/python -m tools.dashboards

clean:
	rm -rf $(VENV) .compiled build dist *.egg-info peloton/api peloton/private mesos .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
