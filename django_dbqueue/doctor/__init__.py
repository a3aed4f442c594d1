"""What is behind ``manage.py queue_doctor``: checks of all that the promises need of a server and of its settings.

A check is a function of the ``examined_database`` that returns findings (``finding``). ``checklist`` has them all.
"""
