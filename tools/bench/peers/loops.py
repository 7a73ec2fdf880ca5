"""The contenders that train in PyTorch: one model on different loaders, or GraphBolt's and DGL's."""
import numpy as np

import data, measure
from measure import contender, endless, set_threads


class Torch:
    """A training loop: subclasses yield mini-batches and take steps on them."""

    def need(self):
        """Raises ImportError where a library is missing."""

    def __init__(self, c):
        import torch

        torch.manual_seed(1)
        self.c, self.fanouts, self.note = c, [int(f) for f in c["fanouts"].split(",")], ""
        self.need()
        self.arrays = data.Arrays(c["arrays"], mapped=c.get("mapped", False))
        self.open()
        if not c.get("no_model"):
            classes = int(self.arrays.labels().max()) + 1
            self.model = self.make(self.arrays.features().shape[1], 128, classes)
            self.adam = torch.optim.Adam(self.model.parameters(), lr=0.005)

    def train(self, batch):
        import torch.nn.functional as F

        self.model.train()
        out, y = self.forward(batch)
        loss = F.cross_entropy(out, y)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return 1

    def run(self, threads):
        set_threads(threads)
        if self.c.get("epochs"):
            for _ in range(self.c.get("warm_epochs", 0)):
                sum(map(self.train, self.epoch(threads)))
            with measure.Watch() as w:
                batches = sum(map(self.train, self.epoch(threads)))
            return w.spent(batches if self.c["unit"] == "batch" else 1)
        work = self.count if self.c.get("no_model") else self.train
        return measure.loop((work(batch) for batch in endless(Epochs(self, threads))), self.c["batches"], self.c.get("warm", 8 if self.c.get("no_model") else 3))

    def count(self, batch):
        """In how many units a batch is that is only loaded."""
        return 1 if self.c.get("features", True) else self.sizes(batch)[0]

    def work(self, threads):
        """What a mini-batch is: so many edges and input nodes, the mean of a few."""
        set_threads(threads)
        return measure.work(map(self.sizes, self.epoch(threads)))

    def evaluate(self, threads):
        """Accuracies with all neighbours: a pass over the whole graph."""
        import torch

        self.model.eval()
        with torch.no_grad():
            right = (self.whole().argmax(1) == torch.from_numpy(self.arrays.labels())).float()
        return {part: right[torch.from_numpy(self.arrays.splits[part])].mean().item() for part in ("valid", "test")}


class Epochs:
    def __init__(self, loop, threads):
        self.loop, self.threads = loop, threads

    def __iter__(self):
        return iter(self.loop.epoch(self.threads))


def pyg_model(inputs, hidden, classes, layers):
    import torch
    from torch_geometric.nn import SAGEConv

    sizes = [inputs] + [hidden] * (layers - 1) + [classes]
    return torch.nn.ModuleList(SAGEConv(a, b) for a, b in zip(sizes, sizes[1:]))


@contender("PyG", "sample", "loader", "step", "epoch", "debdeps", "out-of-core")
class PyG(Torch):
    """PyG's NeighborLoader and SAGEConv with trim_to_layer. With more than one thread, loading has processes of its own, but out of core."""

    def need(self):
        import torch_geometric.typing as built

        if not (built.WITH_PYG_LIB or built.WITH_TORCH_SPARSE):
            raise ImportError("PyG's NeighborLoader needs pyg-lib or torch-sparse")
        self.note = "pyg-lib" if built.WITH_PYG_LIB else "torch-sparse"

    def open(self):
        import torch
        from torch_geometric.data import Data

        a = self.arrays
        self.data = Data(edge_index=torch.from_numpy(a.edge_index()), num_nodes=a.nodes)
        if self.c.get("features", True):
            self.data.x = torch.from_numpy(a.features())
            self.data.y = torch.from_numpy(a.labels())
        self.loaders = {}

    def epoch(self, threads):
        import torch
        from torch_geometric.loader import NeighborLoader

        if threads not in self.loaders:
            workers = threads if self.c.get("no_model") else threads - 1
            workers = workers if threads > 1 and not self.c.get("mapped") else 0  # batches on their way would be memory
            self.loaders[threads] = NeighborLoader(self.data, self.fanouts, torch.from_numpy(self.arrays.splits["train"]), batch_size=1000, shuffle=True,
                                                   is_sorted=True, num_workers=workers, persistent_workers=workers > 0)  # fmt: skip
        return self.loaders[threads]

    def sizes(self, batch):
        return batch.edge_index.shape[1], batch.num_nodes

    def make(self, inputs, hidden, classes):
        return pyg_model(inputs, hidden, classes, len(self.fanouts))

    def forward(self, batch):
        import torch.nn.functional as F
        from torch_geometric.utils import trim_to_layer

        x, edge_index = batch.x, batch.edge_index
        for k, conv in enumerate(self.model):
            x, edge_index, _ = trim_to_layer(k, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
            if k + 1 < len(self.model):
                x = F.dropout(x.relu(), p=0.5, training=self.model.training)
        return x[: batch.batch_size], batch.y[: batch.batch_size]

    def whole(self):
        x = self.data.x
        for k, conv in enumerate(self.model):
            x = conv(x, self.data.edge_index)
            x = x.relu() if k + 1 < len(self.model) else x
        return x


@contender("PyG on gstore's loader", "step", "epoch", "debdeps", "out-of-core")
class PyGOnGstore(PyG):
    """The same model, the batches are gstore.NeighborLoader's."""

    def need(self):
        import gstore

    def open(self):
        import gstore

        self.store, self.loaders = gstore.open(self.c["store"]), {}
        if self.c.get("evaluate"):
            import torch
            from torch_geometric.data import Data

            self.data = Data(x=torch.from_numpy(self.arrays.features()), edge_index=torch.from_numpy(self.arrays.edge_index()))

    def epoch(self, threads, **options):
        import gstore

        if threads not in self.loaders:
            options = {**self.c.get("loader", {"plan": "memory"}), **options}
            self.loaders = {threads: gstore.NeighborLoader(self.store, self.fanouts, 1000, seed=1, threads=threads, **options)}
        return (batch.to_pyg() for batch in self.loaders[threads])


@contender("GraphBolt", "sample", "loader", "step", "debdeps", "out-of-core")
class GraphBolt(Torch):
    """GraphBolt's sampler and features, DGL's SAGEConv; ids of 32 bits, which it samples fastest."""

    def need(self):
        import dgl.graphbolt

    def open(self):
        import torch
        import dgl.graphbolt as gb

        a = self.arrays
        self.graph = gb.fused_csc_sampling_graph(torch.from_numpy(a.indptr.astype(np.int32)), torch.from_numpy(a.indices.astype(np.int32)))
        self.features = None
        if self.c.get("features", True):
            if self.c.get("mapped") and hasattr(gb, "DiskBasedFeature"):
                rows, self.note = gb.DiskBasedFeature(str(a.folder / "node_feat.npy")), "DiskBasedFeature"
            else:
                rows = gb.TorchBasedFeature(torch.from_numpy(a.features()))
                self.note = "no DiskBasedFeature in this version: TorchBasedFeature on a numpy memmap" if self.c.get("mapped") else ""
            self.features = gb.BasicFeatureStore({("node", None, "x"): rows})
        train = torch.from_numpy(a.splits["train"].astype(np.int32))
        self.items = gb.ItemSet((train, torch.from_numpy(a.labels()[a.splits["train"]])), names=("seed_nodes", "labels"))

    def epoch(self, threads):
        import torch
        import dgl.graphbolt as gb

        # Its list of fanouts runs from the outermost layer inward: the last one is of the seeds.
        fanouts = [torch.LongTensor([f]) for f in reversed(self.fanouts)]
        pipe = gb.ItemSampler(self.items, batch_size=1000, shuffle=True).sample_neighbor(self.graph, fanouts)
        if self.features:
            pipe = pipe.fetch_feature(self.features, node_feature_keys=["x"])
        return gb.DataLoader(pipe, num_workers=0)

    def sizes(self, batch):
        edges = sum(len(s.sampled_csc.indices if hasattr(s, "sampled_csc") else s.node_pairs[0]) for s in batch.sampled_subgraphs)
        return edges, len(batch.input_nodes)

    def make(self, inputs, hidden, classes):
        import torch
        from dgl.nn import SAGEConv

        sizes = [inputs] + [hidden] * (len(self.fanouts) - 1) + [classes]
        return torch.nn.ModuleList(SAGEConv(a, b, "mean") for a, b in zip(sizes, sizes[1:]))

    def layers(self, graphs, x):
        import torch.nn.functional as F

        for k, (conv, graph) in enumerate(zip(self.model, graphs)):
            x = conv(graph, x)
            if k + 1 < len(self.model):
                x = F.dropout(x.relu(), p=0.5, training=self.model.training)
        return x

    def forward(self, batch):
        return self.layers(batch.blocks, batch.node_features["x"]), batch.labels

    def whole(self):
        import dgl, torch

        a = self.arrays
        graph = dgl.graph(("csc", (torch.from_numpy(a.indptr), torch.from_numpy(a.indices), [])), num_nodes=a.nodes)
        return self.layers([graph] * len(self.fanouts), torch.from_numpy(a.features()))
