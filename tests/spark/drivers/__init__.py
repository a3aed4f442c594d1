"""What tests run as programs of their own: drivers that are killed, sent to a cluster, or searched for a secret."""
