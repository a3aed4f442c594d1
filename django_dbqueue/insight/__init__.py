"""What ended, when, and how long it took: counted by the workers, and read by the console."""
