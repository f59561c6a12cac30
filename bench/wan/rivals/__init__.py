"""The rivals that run on WANs in a box: gloo, gloo in its best ring order, and MPI."""
