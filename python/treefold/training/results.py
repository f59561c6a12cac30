"""The results of `treefold.train`: a report with one predicted iteration for each algorithm."""

from dataclasses import dataclass, field

from treefold._core import format_time
from treefold.records import Record, Table, hidden, keyed
from treefold.training.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class TrainingSetup(Record):
    """What all iterations of a report have in common: the model, the network, and how the model is trained.

    Attributes:
        model: The name of the model.
        topology: The name of the network.
        ranks: This many accelerators train.
        simulator: The simulator that predicts the time of collectives: `analytic`, `flow` or `packet`.
        accelerator: The name of the accelerator that each rank has.
        batch: Each rank, or with model parallelism each group, trains on this many samples at a time.
        accumulate: An iteration has this many micro-batches of `batch` samples.
        overlap: The moments at which the ranks all-reduce gradients: once after the backward pass (`none`), after each
            layer (`layer`), or bucket by bucket as in PyTorch's DDP (`bucket`). With `fsdp`, what is gathered beside
            the compute: nothing, a layer or a bucket at a time.
        sharding: What each rank keeps only a shard of: nothing (`none`), the optimizer's state (`zero-1`), the
            gradients, too (`zero-2`), or also the parameters (`fsdp`).
        model_parallel: This many neighbouring ranks hold the model together (tensor parallelism as in Megatron).
        parameters: The number of trained parameters of the model.
        parameters_per_rank: The number of trained parameters that a rank computes with; it is smaller with model
            parallelism.
        compute_cycles: The clock cycles of the forward and the backward pass; None for a GPU, whose model counts no
            cycles.
        samples: All ranks together train on this many samples in an iteration.
        tokens: The tokens of an iteration, of all ranks; None if samples do not consist of tokens.
        flops: The products of an iteration need this many floating-point operations in both passes, of all ranks
            together.
        peak_flops: The peak of all accelerators together, in floating-point operations per second.
        memory_bytes: A rank needs this many bytes of memory, the sum of the four parts below.
        parameters_bytes: The parameters take this many bytes; with `fsdp` those of the rank's shard, and those that are
            gathered at once.
        gradients_bytes: The gradients take this many bytes at most.
        optimizer_bytes: The optimizer's state takes this many bytes, with the weights of 32 bits.
        activations_bytes: What the backward pass reads of the forward pass takes this many bytes.
        accelerator_memory_bytes: The accelerator's memory has this many bytes; None if that is not known.

    Example:
        >>> import treefold
        >>> setup = treefold.train("resnet50", "ring:4", "ring")[0]
        >>> isinstance(setup, treefold.training.TrainingSetup), setup.ranks, setup.samples
        (True, 4, 64)

    """

    model: str
    topology: str
    ranks: int
    simulator: str
    accelerator: str
    batch: int
    accumulate: int
    overlap: str
    sharding: str
    model_parallel: int
    parameters: int
    parameters_per_rank: int
    compute_cycles: int | None
    samples: int
    tokens: int | None
    flops: int
    peak_flops: float
    memory_bytes: int
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    accelerator_memory_bytes: int | None


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingIteration(TrainingSetup):
    """The predicted iteration of a model with one algorithm for its collectives.

    `iteration_s` is the sum of `compute_s`, `local_aggregation_s`, `optimizer_s`, `compute_overhead_s` and
    `exposed_communication_s`. `communication_s` is the sum of `exposed_communication_s` and
    `overlapped_communication_s`. All of these are seconds. The time that all-reduces cost the concurrent compute is
    `compute_overhead_s` here, and `stolen_s` in dictionaries, data frames and JSON.

    The attributes of `treefold.training.TrainingSetup` say what is trained, where and how; these are the others.

    Attributes:
        algorithm: The algorithm that was asked for, which may be `auto`.
        chosen: The algorithms that `auto` chose, separated by commas; None for every other algorithm.
        iteration_s: The iteration takes this many seconds.
        samples_per_s: All ranks together train on this many samples per second.
        tokens_per_s: All ranks together train on this many tokens per second; None if samples have none.
        mfu: The part of the peak that is used (model FLOP utilisation): `flops` / (`peak_flops` x `iteration_s`).
        compute_s: The forward and the backward pass take this many seconds, without collectives beside them.
        local_aggregation_s: A rank adds up gradients of its own for this many seconds: those of the arrays of a
            `Systolic`, and on GPUs those of micro-batches.
        optimizer_s: The optimizer's update takes this many seconds.
        compute_overhead_s: All-reduces in software prolong the compute beside them by this many seconds (`stolen_s` in
            dictionaries and JSON).
        communication_s: The network is busy for this many seconds.
        exposed_communication_s: Compute waits for the network for this many seconds.
        overlapped_communication_s: The seconds of communication that are concurrent with compute.
        collectives: The number of collectives of the iteration, each counted once (`messages` in dictionaries and
            JSON).
        interpolation_error: The expected relative error of the times of collectives, which are interpolated for some
            sizes; None if every size was simulated.
        buffer_cover: The size of buffers divided by what a link carries in its round trip; below 1, buffers limit the
            rate of packets. It is 1.0 in a fabric and for simulators without buffers (where `PacketReport.buffer_cover`
            is None), and None if nothing is sent.
        speedup: The iteration is this many times as fast as that of `baseline`.
        baseline: The algorithm that speed-ups compare with: the first one that was named. If none was named, it is
            `nccl` if that is among them, and otherwise the first.
        wall_s: The prediction took this many seconds.
        winner: Whether this iteration is the fastest of all.
        timeline: The timeline of the iteration: what computes, and which collective runs, at which time.

    Example:
        >>> import treefold
        >>> ring, multitree = treefold.train("resnet50", "torus:4x4", "ring,multitree")
        >>> multitree.iteration_s < ring.iteration_s
        True
        >>> multitree.winner
        True

    """

    algorithm: str
    chosen: str | None = field(metadata={"is_optional": True})
    iteration_s: float
    samples_per_s: float
    tokens_per_s: float | None
    mfu: float
    compute_s: float
    local_aggregation_s: float
    optimizer_s: float
    compute_overhead_s: float = keyed("stolen_s")
    communication_s: float
    exposed_communication_s: float
    overlapped_communication_s: float
    collectives: int = keyed("messages")
    interpolation_error: float | None
    buffer_cover: float | None
    speedup: float
    baseline: str
    wall_s: float
    winner: bool
    timeline: Timeline = hidden()

    def __repr__(self) -> str:
        return f"TrainingIteration({self.algorithm}, {self.model} on {self.topology}: {format_time(self.iteration_s)})"


class TrainingReport(Table[TrainingIteration]):
    """The predicted iterations of a model, one for each algorithm, in the order of the algorithms.

    Example:
        >>> import treefold
        >>> report = treefold.train("resnet50", "torus:4x4", "ring,multitree")
        >>> report
        TrainingReport(resnet50 on torus:4x4: ring 32.6ms, multitree 24.61ms)
        >>> [row["algorithm"] for row in report.rows()]
        ['ring', 'multitree']

    """

    def fastest(self) -> TrainingIteration:
        """Return the fastest iteration.

        Example:
            >>> import treefold
            >>> treefold.train("resnet50", "torus:4x4", "ring,multitree").fastest().algorithm
            'multitree'

        """
        return min(self, key=lambda each: each.iteration_s)

    def __repr__(self) -> str:
        times = ", ".join(f"{each.algorithm} {format_time(each.iteration_s)}" for each in self)
        return f"TrainingReport({self[0].model} on {self[0].topology}: {times})"
