1 / 0  # noqa: B018 - as a bug in a project
