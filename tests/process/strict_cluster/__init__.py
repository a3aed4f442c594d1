"""Django's engine for MySQL on a server that refuses ``GET_LOCK``, as Percona XtraDB Cluster does when it is strict."""
