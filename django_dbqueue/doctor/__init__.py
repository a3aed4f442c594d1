"""What is behind ``manage.py queue_doctor``: a look at all that the promises need of a server and of its settings.

A check is a function of the database (``patient``) that gives findings (``finding``). ``checklist`` has them all.
"""
