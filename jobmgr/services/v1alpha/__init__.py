"""The v1alpha services of jobmgr: stateless jobs and pods."""
