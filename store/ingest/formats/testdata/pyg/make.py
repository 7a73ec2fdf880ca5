"""Writes the files beside it: python make.py, with torch 2.2.1 and torch_geometric 2.6.1."""
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset


def mask(*nodes, of=4):
    m = torch.zeros(of, dtype=torch.bool)
    m[list(nodes)] = True
    return m


edges = torch.tensor([[0, 1, 3], [1, 2, 0]])
x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
data = Data(x=x, edge_index=edges, y=torch.tensor([0, 1, 1, 0]), edge_attr=torch.tensor([[0.5], [1.5], [2.5]]), name="four", year=torch.tensor([9, 8, 7, 6]),
            train_mask=mask(0, 1), val_mask=mask(2), test_mask=mask(3))
torch.save(data, "data.pt")
torch.save({**data.to_dict(), "pos": None, "edge_weight": None, "edge_type": None}, "dictionary.pt")
collated, slices = InMemoryDataset.collate([data])
torch.save((collated.to_dict(), slices, collated.__class__), "set.pt")
torch.save((collated, slices), "set_2_0.pt")
both, slices = InMemoryDataset.collate([data, data])
torch.save((both.to_dict(), slices, both.__class__), "two.pt")
torch.save(data, "legacy.pt", _use_new_zipfile_serialization=False)

# edges and features that are views of other tensors, numbers to learn, weights, times, two splits
two = torch.stack([mask(0, 1), mask(2, 3)], 1)
wide = torch.arange(20, dtype=torch.float64).view(5, 4)
torch.save(Data(x=wide[1:], pos=x.t().contiguous().t(), edge_index=edges.t().contiguous().t(), y=torch.tensor([[0.5], [1.0], [2.0], [float("nan")]]),
                edge_weight=torch.tensor([1.0, 2.0, 3.0]), edge_time=torch.tensor([5, 6, 7]), train_mask=two, val_mask=mask(), test_mask=~two), "views.pt")
torch.save(Data(x=x[:, ::2], edge_index=edges), "strided.pt")
torch.save(Data(edge_index=edges, edge_type=torch.tensor([1, 0, 1]), num_nodes=6), "relations.pt")
torch.save(Data(edge_index=edges), "edges.pt")

typed = HeteroData()
typed["paper"].x = x[:2]
typed["paper"].y = torch.tensor([1, 0])
typed["paper"].train_mask, typed["paper"].val_mask = mask(1, of=2), mask(0, of=2)
typed["author"].x = torch.tensor([[9.0]])
typed["place"].num_nodes = 3
typed["author", "writes", "paper"].edge_index = torch.tensor([[0, 0], [1, 0]])
typed["author", "writes", "paper"].edge_attr = torch.tensor([[4.0], [5.0]])
typed["author", "of", "place"].edge_index = torch.tensor([[0], [2]])
torch.save(typed, "typed.pt")
torch.save(typed.to_dict(), "typed_dictionary.pt")
collated, slices = InMemoryDataset.collate([typed])
torch.save((collated.to_dict(), slices, collated.__class__), "typed_set.pt")
torch.save({"w": x}, "model.pt")
