"""A WAN in a box makes the network of a topology real on one machine: network namespaces, joined by shaped cables.

    python -m tools.wan_box run wan.json -- python train.py

runs a command on every worker of the topology. As a library:

    from tools import wan_box

    with wan_box.up("wan.json") as box:
        box.run_all([sys.executable, "train.py"])

Each node has one namespace and one address (10.77.x.y/32, on the device `node`); workers and switches both forward. A
cable is a veth pair with a token bucket at both ends. Delays are netem's, or on kernels without it those of a process
of ours (`delay_process.py`). No device leads out of the box.
"""

from tools.wan_box.box import Box, attach, start, up
from tools.wan_box.names import DEVICE
from tools.wan_box.processes import Outcome, exit_code

__all__ = ["DEVICE", "Box", "Outcome", "attach", "exit_code", "start", "up"]
