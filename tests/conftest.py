"""What all tests need: interrupts reach the commands that they start."""

import signal

# A shell has interrupts ignored in what it starts in the background, and processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
