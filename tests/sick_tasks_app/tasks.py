raise RuntimeError("half a release")
