"""What each job costs as the history grows: ``bin/bench --scale``."""
