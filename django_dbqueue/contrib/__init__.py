"""What connects the queue with other people's tools; imported only where it is used."""
