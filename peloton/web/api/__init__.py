"""The JSON door: every public method as `POST /api/<package.Service>/<Method>`, in protobuf's JSON form."""
