"""Random connected networks, as topology documents: direct or switched, unequal, one-way, with relays."""

from itertools import pairwise

ALL_REDUCES = {"p2p", "recursive-doubling"}
"""Algorithms that fit every connected network that is not too large, and plan all-reduces only."""

ALWAYS = ALL_REDUCES | {
    *("ring", "multiring", "dbtree", "halving-doubling", "bine", "direct", "bruck", "pat", "multitree"),
    *("ps", "psld", "plink", "packing"),
}
"""Algorithms that fit every connected network that is not too large."""

BANDWIDTHS = (1e9, 1e9, 1e9, 2e9, 1.5e9, 4e8, 1e7)


def network(random):
    """Returns a document of a network of 1 to 9 ranks that can all reach each other."""
    accelerators = [{"name": f"A{i}"} for i in range(random.randint(1, 9))]
    switches = [_switch(random, i) for i in range(random.choice((0, 0, 1, 2, 3)))]
    nodes = accelerators + switches
    random.shuffle(nodes)
    document = {
        "format": "treefold-topology",
        "version": 1,
        "name": "random",
        "nodes": nodes,
        "links": _links(random, [node["name"] for node in nodes]),
    }
    names = [node["name"] for node in accelerators]
    if random.random() < 0.4:
        document["ranks"] = random.sample(names, random.randint(1, len(names)))
    return document


def _switch(random, number):
    abilities = {"reduces": random.random() < 0.5, "multicasts": random.random() < 0.5}
    return {"name": f"S{number}", "kind": "switch", "latency_s": random.choice((0, 150e-9)), **abilities}


def _links(random, names):
    """A one-way cycle or a tree of cables joins all nodes; chords, some parallel to other links, come on top."""
    equal = random.random() < 0.4

    def link(source, target, both_ways):
        bandwidth = 1e9 if equal else random.choice(BANDWIDTHS)
        ends = {"source": source, "target": target, "both_ways": both_ways}
        return {**ends, "bandwidth_Bps": bandwidth, "latency_s": random.choice((0, 1e-6, 5e-3))}

    if random.random() < 0.4:
        around = [*names, names[0]] if len(names) > 1 else []
        links = [link(source, target, False) for source, target in pairwise(around)]
    else:
        links = [link(random.choice(names[:i]), names[i], True) for i in range(1, len(names))]
    for _ in range(random.randrange(8) if len(names) > 1 else 0):
        links.append(link(*random.sample(names, 2), random.random() < 0.6))
    random.shuffle(links)
    return links
