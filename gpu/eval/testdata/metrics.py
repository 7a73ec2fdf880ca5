"""Makes metrics.json, beside which TestLikeScikitLearn checks metrics.

Run with scikit-learn 1.9 or later:  python metrics.py > metrics.json
"""
import json

import numpy as np
import sklearn
from sklearn.metrics import accuracy_score, average_precision_score, balanced_accuracy_score, f1_score, log_loss, roc_auc_score


def case(name, classes, n, seed, rare=None, levels=None):
    """Labels and logits of n nodes: few distinct logits give equal scores, a rare class an imbalance."""
    r = np.random.default_rng(seed)
    share = np.ones(classes)
    if rare:
        share[1:] = rare
    labels = r.choice(classes, n, p=share / share.sum())
    labels[:classes] = np.arange(classes)
    logits = r.normal(size=(n, classes)).astype(np.float32)
    logits[np.arange(n), labels] += 1
    if levels:
        logits = (np.round(logits * levels) / levels).astype(np.float32)
    odds = logits.astype(np.float64)
    p = np.exp(odds - odds.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    # Scores in the order of p, but without its saturation: log(p / (1 − p)), rounded as ours are.
    others = np.stack([np.delete(odds, c, 1) for c in range(classes)], 1)
    top = others.max(2)
    scores = (odds - top - np.log(np.exp(others - top[:, :, None]).sum(2))).astype(np.float32)
    if classes == 2:
        auc, ap = roc_auc_score(labels == 1, scores[:, 1]), average_precision_score(labels == 1, scores[:, 1])
    else:
        one = labels[:, None] == np.arange(classes)
        auc, ap = roc_auc_score(one, scores, average="macro"), average_precision_score(one, scores, average="macro")
    said = logits.argmax(1)
    return dict(name=name, classes=classes, labels=labels.tolist(), logits=logits.ravel().tolist(), auc=auc, average_precision=ap,
                accuracy=accuracy_score(labels, said), balanced_accuracy=balanced_accuracy_score(labels, said),
                loss=log_loss(labels, p, labels=list(range(classes))),
                f1_macro=f1_score(labels, said, average="macro"), f1_micro=f1_score(labels, said, average="micro"))


print(json.dumps(dict(sklearn=sklearn.__version__, cases=[
    case("two classes", 2, 61, 1), case("two classes, equal scores", 2, 97, 2, levels=2),
    case("a rare class", 2, 203, 3, rare=.05), case("a rare class, equal scores", 2, 199, 4, rare=.1, levels=1),
    case("three classes", 3, 80, 5), case("five classes, some rare", 5, 211, 6, rare=.2, levels=3)])))
