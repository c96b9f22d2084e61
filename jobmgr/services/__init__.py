"""The gRPC services of jobmgr: translate, call the engine or the store, translate back."""
