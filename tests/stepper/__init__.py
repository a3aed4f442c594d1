"""Plays every order of the statements of several sessions, up to a bound, on a real database, and checks each.

A model is a function that makes rows and says who does what with them, and what must hold afterwards:

    def test_of_two_claims_one_has_the_message(explore: Callable[..., Explored]) -> None:
        def world() -> Scene:
            message = waiting()

            def check(ended: Ended) -> str:
                [winner] = ended["ann"] + ended["bob"]
                assert row(message)["claim_token"] == winner.held_token
                return "ann" if ended["ann"] else "bob"

            return Scene({"ann": lambda: claim(1), "bob": lambda: claim(1)}, check)

        assert set(explore(world).seen) == {"ann", "bob"}

* ``world()`` is called before each order, in empty tables. Rows that it makes are committed before the actors begin.
* The **actors** are functions that call the package as its users do. Each runs once, in a thread with a connection of
  its own, and stops before every statement that it sends, COMMIT and ROLLBACK among them. The scheduler lets one go by
  one step at a time. Where statements travel together they are sent one by one (``explore(world, together=True)``:
  as they are).
* Who waits for a lock is found by asking the server, and can't go on; the others can. A deadlock's victim goes on as it
  would, and retries without a pause. On SQLite, whoever wants to write while another does can't go on.
* **check** asserts, and returns what happened in a word or two. Let the test say which words must come, so that it
  fails when a side of the race is never seen. ``ended["ann"]`` is what ann returned, or raised if the Scene allows it
  (``may_raise``; anything else that is raised fails the order); ``ended.waited`` has those who waited for a lock.
* ``explore(world, deaths=1)`` also kills an actor before each of its statements, blocked ones too: its session is ended
  by the server, and its code sends nothing more. Its result is ``KILLED`` (``ended.was_killed("ann")``).
* Orders come by their preemptions, fewest first: two at most by default (``preemptions=``), one more with --nightly.
  Keep actors short, since each of their steps multiplies; give long ones ``preemptions=1``.
* A failure prints the steps, the results, and how to repeat it: name the test, and add ``--order='ann*3 bob ann'``.
  Orders differ between databases, since statements do.

``contenders.py`` has what models share; ``exploring.py`` the search; ``stage.py`` plays an order; ``actor.py`` is where
a thread stops; ``sessions.py`` asks servers who waits.
"""
