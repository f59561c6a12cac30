"""What runs in many processes at once: how workers find each other, measure the network between them, and run plans."""
