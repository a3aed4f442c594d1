"""What is counted of the house: `tests/test_house.py` says how much of each there may be."""
