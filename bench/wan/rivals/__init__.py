"""The rivals that run on a WAN in a box: gloo, gloo in its best ring order, and MPI."""
