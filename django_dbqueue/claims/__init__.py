"""What each claim goes by, without Django."""
