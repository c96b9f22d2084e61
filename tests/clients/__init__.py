"""The clients of all languages against one minicluster: `make test-clients`, not part of `make test`."""
