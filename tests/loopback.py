"""An engine within a process, for tests of what runs over engines."""

from treefold import runtime


class Loopback:
    """An engine whose messages go through queues of this process, in the order of their arrival."""

    ahead, message_s = 4, 1e-5

    def __init__(self, rank, boxes):
        self.rank, self.boxes, self.posted, self.done = rank, boxes, {}, []

    def send(self, rank, message):
        self.boxes[rank].append((self.rank, message.copy()))
        self.done.append(runtime.engine.Completion(rank, message, False))

    def receive(self, rank, message):
        self.posted.setdefault(rank, []).append(message)

    def completions(self, timeout_s):
        done, self.done = self.done, []
        for sender, message in [each for each in self.boxes[self.rank] if self.posted.get(each[0])]:
            if buffers := self.posted[sender]:
                buffers[0][: message.size] = message
                done.append(runtime.engine.Completion(sender, buffers.pop(0), True))
                self.boxes[self.rank].remove(next(e for e in self.boxes[self.rank] if e[1] is message))
        return done
