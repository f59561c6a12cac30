// What a page knows: the document that treefold writes into it. `python/treefold/viewing/` writes what is read here.
//
// Numbers that come by the thousand are columns: typed arrays in compressed blocks (`columns.ts`).

/** Where a network's nodes stand; `treefold.layouts` chooses. */
type LayoutKind = "line" | "ring" | "grid" | "space" | "layers" | "map" | "force";

export interface Network {
  name: string;
  layout: LayoutKind;
  /** How three dimensions are turned at first, as a yaw and a pitch in radians. */
  turn: [number, number];
  /** For maps: lines of coasts, each a list of longitudes and latitudes in turn. */
  coasts: number[][];
  /** Names of nodes. */
  nodes: string[];
  /** The rank of each node, or -1. */
  ranks: number[];
  /** What each node is; a reducing switch adds up what comes in. */
  kinds: ("accelerator" | "switch" | "reducing switch")[];
  /** The nodes of a map whose place is guessed. */
  guessed: number[];
  /** The capacities that links share, with the numbers of these links. */
  shared: { name: string; bandwidth_Bps: number; links: number[] }[];
  /**
   * The block with the columns `positions` (3 a node), `source`, `target`, `bandwidth_Bps`, `latency_s`, `stub` (3 a
   * link: how it leaves the picture, 0 if it does not) and `bend` (how far its middle is moved to the left); and
   * `frame`, the positions of a network of which this one is left, if it stands as that one does, else nothing.
   */
  columns: string;
}

/** A quantity that was sampled over time, for each node or each link: a table of columns `series-NAME`. */
export interface Series {
  name: string;
  /** What it is, in words, such as `flits in buffers`. */
  title: string;
  unit: string;
  of: "nodes" | "links";
  windows: number;
  /** The value that the largest number of the table stands for. */
  largest: number;
}

/** How the time of the longest chain of transfers is spent. */
export interface CriticalPath {
  transfers: number;
  sending_s: number;
  latency_s: number;
  waiting_s: number;
}

/** What `treefold explain` found out about the network of a scene. */
export interface Explained {
  /** The worth of each cable: its links, and the part by which the bound grows with 10 % more of it. */
  links: { name: string; links: number[]; gain: number; spare: boolean }[];
  /** The cables that must grow together, where one alone gains nothing. */
  together: string[];
  /** The worst first: the rate as a part of that now, and the time as a multiple; null if nothing can be sent. */
  failures: {
    kind: "link" | "site";
    name: string;
    links: number[];
    node: number | null;
    rate: number | null;
    time: number | null;
    problem: string;
  }[];
}

/** One plan at one size, simulated or measured. */
export interface Scene {
  label: string;
  network: number;
  algorithm: string;
  /** In what the network differs from that of the scene before, in words, if somebody asked about changes. */
  changes: string[];
  collective: string;
  size_bytes: number;
  /** `analytic`, `flow` or `packet`; `measured`; or `trace` for one that was given and is not known to be measured. */
  simulator: string;
  time_s: number;
  /** How far the clocks of a measured run may have been apart; 0 if it is simulated. */
  clock_uncertainty_s: number;
  bound_s: number;
  /** What limits the time at this size, as the end of a sentence. */
  limited_by: string;
  /** What limits the rate of large vectors, in the same way; that rate; and the links that do. */
  rate_limited_by: string;
  limit_rate_Bps: number | null;
  limit_links: number[];
  /** The share of the time for which the full rate of each shared capacity is used; none if that is not known. */
  shared_used: number[];
  mean_utilization: number;
  max_utilization: number;
  trees: number;
  phases: number;
  steps: number;
  path: CriticalPath | null;
  series: Series[];
  /** How many transfers there are, and of how many trees the block has them. */
  transfers: number;
  trees_here: number;
  explained: Explained | null;
  /** The address of a server that has the other trees, if there is one. */
  served: string | null;
  /** The block with the columns of `transfers.ts`, and the tables of the series. */
  columns: string;
}

export interface Document {
  title: string;
  networks: Network[];
  scenes: Scene[];
  /** The scenes that are shown first. */
  shown: number[];
}
