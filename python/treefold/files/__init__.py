"""Files of networks, plans and models: how they are read and written, and how what is wrong with them is said."""
