"""A made-up database, of a forum, and what gradient boosting reaches on it by features that are made by hand.

    python3 tools/accuracy/forum.py make FOLDER [--users 5000] [--seed 0] [--levels 7,20,60,150,400,900]
    python3 tools/accuracy/forum.py boost [--users 5000] [--seed 0] [--levels …]

make writes users, their posts (questions, and answers to them), comments, votes and badges of four years to FOLDER/db,
and the training tables of four tasks to FOLDER/tasks: user-badge and user-engagement (does a user get a badge, or
write, within 91 days), user-score and post-votes (how many votes a user's posts, or a post, get). Badges are given for
so many votes (LEVELS) and posts: who gets one next is told by how many there are. boost prints the scores of
scikit-learn's gradient boosting on 33 counts, times and properties of a user, two references deep, on the same forum.
"""

import argparse
import pathlib

import numpy as np
import pandas as pd

BEGIN, DAYS, WINDOW = pd.Timestamp("2019-01-01"), 4 * 365, 91
SEEDS = {
    "train": [1186 - WINDOW * i for i in range(8, 0, -1)],
    "val": [1186],
    "test": [1277],
}
MANIFEST = """name: forum
manifest_version: 1
val_timestamp: '2022-04-01'
test_timestamp: '2022-07-01'
tables:
  users: {pkey: Id, time_col: CreationDate, fkeys: {}}
  posts: {pkey: Id, time_col: CreationDate, fkeys: {OwnerUserId: users, ParentId: posts}}
  comments: {pkey: Id, time_col: CreationDate, fkeys: {PostId: posts, UserId: users}}
  votes: {pkey: Id, time_col: CreationDate, fkeys: {PostId: posts}}
  badges: {pkey: Id, time_col: Date, fkeys: {UserId: users}}
"""
TASK = """name: {name}
task_type: {kind}
entity_table: {table}
entity_col: {column}
target_col: {target}
time_col: timestamp
timedelta: 91 days
"""
POSTS_FOR = {1: "Student", 5: "Contributor", 20: "Regular", 60: "Pillar"}
TAGS = {"python": 0.3, "go": 0.1, "rust": 0.5, "sql": -0.1, "css": -0.5, "java": -0.2}
PLACES = ["DE", "US", "IN", "FR", "BR", "PL", "JP", "NL"]


def moment(days):
    return BEGIN + pd.to_timedelta(np.round(np.asarray(days) * 86400), unit="s")


def in_order(times, *columns):
    known = times < DAYS
    order = np.argsort(times[known])
    return [x[known][order] for x in (times, *columns)]


class Forum:
    """What happens in the forum; times are days."""

    def __init__(self, users, seed, levels):
        self.r = np.random.default_rng(seed)
        self.n = users
        self.join_and_post()
        self.vote()
        self.comment()
        self.award(levels)

    def join_and_post(self):
        r, n = self.r, self.n
        self.joined = np.maximum(np.sort(r.uniform(-200, DAYS - 60, n)), 0) + r.uniform(0, 0.5, n)
        self.skill, rate, life = r.normal(0, 0.8, n), np.exp(r.normal(-4.2, 1.2, n)), np.exp(r.normal(5, 1, n))
        self.place = r.choice(PLACES, n, p=[0.15, 0.3, 0.2, 0.1, 0.08, 0.07, 0.05, 0.05])
        self.age = np.where(r.random(n) < 0.4, np.nan, np.round(r.normal(33, 9, n)).clip(14, 80))
        rate *= np.where(self.place == "IN", 1.4, 1)
        users, times = [], []
        for day in range(0, DAYS, 7):
            since = day - self.joined
            mean = rate * 7 * np.exp(-since / life) + np.where(since < 14, 0.25, 0)
            of = np.repeat(np.arange(n), r.poisson(np.where(since > 0, mean, 0)))
            users.append(of)
            times.append(day + r.uniform(0, 7, len(of)))
        self.posted, self.author = in_order(np.concatenate(times), np.concatenate(users))
        p = len(self.author)
        self.asks = r.random(p) < 0.45
        self.asks[:20] = True
        self.worth = 0.7 * self.skill[self.author] + r.normal(0, 0.6, p)
        self.tag = r.choice(list(TAGS), p, p=[0.3, 0.1, 0.1, 0.2, 0.15, 0.15])
        self.length = np.round(np.exp(r.normal(6 + 0.2 * self.worth, 0.6))).astype(int)
        self.parent, asked = np.full(p, -1), []
        for i in range(p):
            if self.asks[i]:
                asked.append(i)
                continue
            late = np.array(asked[-200:])
            weight = np.exp(self.worth[late] - (self.posted[i] - self.posted[late]) / 15) + 1e-9
            self.parent[i] = r.choice(late, p=weight / weight.sum())

    def vote(self):
        r, p = self.r, len(self.author)
        mean = np.exp(0.9 * self.worth + np.array([TAGS[t] for t in self.tag]) + np.where(self.asks, -0.1, 0.2))
        soon, late = r.poisson(mean), r.poisson(0.6 * mean)
        posts = np.concatenate([np.repeat(np.arange(p), k) for k in (soon, late)])
        after = np.concatenate([r.exponential(6, soon.sum()), r.exponential(400, late.sum())])
        self.voted, self.voted_post = in_order(self.posted[posts] + after, posts)
        self.vote_type = r.choice(["up", "down", "fav"], len(self.voted), p=[0.88, 0.06, 0.06])

    def comment(self):
        r, p = self.r, len(self.author)
        posts = np.repeat(np.arange(p), r.poisson(1.2 * np.exp(0.4 * self.worth)))
        self.commented, self.commented_post = in_order(self.posted[posts] + r.exponential(5, len(posts)), posts)
        lo, hi = np.searchsorted(self.posted, self.commented - 60), np.searchsorted(self.posted, self.commented)
        other = self.author[(lo + r.random(len(lo)) * np.maximum(hi - lo, 1)).astype(int)]
        own = (hi <= lo) | (r.random(len(lo)) < 0.15)
        self.commenter = np.where(own, self.author[self.commented_post], other)

    def award(self, levels):
        got, names = [], dict(zip(levels, ("Teacher", "Nice", "Good", "Great", "Famous", "Legend")))
        up = self.vote_type == "up"
        for users, times, of in (
            (self.author[self.voted_post[up]], self.voted[up], names),
            (self.author, self.posted, POSTS_FOR),
        ):
            so_far = np.zeros(self.n, int)
            for u, t in zip(users, times):
                so_far[u] += 1
                if so_far[u] in of:
                    got.append((t + self.r.exponential(1), u, of[so_far[u]]))
        times, users, badges = (np.array(x) for x in zip(*got))
        self.awarded, self.winner, self.badge = in_order(times, users, badges)

    def tables(self):
        unknown = self.r.random(len(self.author)) < 0.02
        owner = pd.Series(self.author, dtype="Int64").mask(unknown)
        yield "users", {"CreationDate": moment(self.joined), "Location": self.place, "Age": self.age}
        yield "posts", {
            "OwnerUserId": owner,
            "ParentId": pd.Series(self.parent, dtype="Int64").mask(self.parent < 0),
            "PostTypeId": np.where(self.asks, 1, 2),
            "Tag": self.tag,
            "BodyLength": self.length,
            "CreationDate": moment(self.posted),
        }
        yield "comments", {
            "PostId": self.commented_post, "UserId": self.commenter,
            "Length": self.r.integers(15, 600, len(self.commented)), "CreationDate": moment(self.commented),
        }
        yield "votes", {"PostId": self.voted_post, "VoteType": self.vote_type, "CreationDate": moment(self.voted)}
        yield "badges", {"UserId": self.winner, "Name": self.badge, "Date": moment(self.awarded)}

    def tasks(self):
        """Of each task: its name, kind, table, columns, and what entities there are at a moment with their targets."""
        writers = np.concatenate([self.author, self.commenter])
        written = np.concatenate([self.posted, self.commented])
        up = self.vote_type == "up"

        def within(ids, times, t, n):
            return np.bincount(ids[(times > t) & (times <= t + WINDOW)], minlength=n)

        def engagement(t):
            known = np.unique(writers[written <= t])
            return known, (within(writers, written, t, self.n)[known] > 0).astype(int)

        def badge(t):
            known = np.flatnonzero(self.joined <= t)
            return known, (within(self.winner, self.awarded, t, self.n)[known] > 0).astype(int)

        def score(t):
            known = np.unique(writers[(written <= t) & (written > t - 365)])
            return known, within(self.author[self.voted_post[up]], self.voted[up], t, self.n)[known].astype(float)

        def votes(t):
            known = np.flatnonzero((self.posted <= t) & (self.posted > t - 730))
            return known, within(self.voted_post[up], self.voted[up], t, len(self.author))[known].astype(float)

        yield "user-badge", "binary_classification", "users", "UserId", "WillGetBadge", badge
        yield "user-engagement", "binary_classification", "users", "UserId", "contribution", engagement
        yield "user-score", "regression", "users", "UserId", "votes", score
        yield "post-votes", "regression", "posts", "PostId", "popularity", votes

    def features(self, t):
        """How often and how long ago users did and got what, at a moment."""
        columns = []
        for ids, times in (
            (self.author, self.posted), (self.commenter, self.commented), (self.author[self.voted_post], self.voted),
            (self.author[self.commented_post], self.commented), (self.winner, self.awarded),
        ):
            for days in (14, 30, 91, 365, np.inf):
                columns.append(np.bincount(ids[(times <= t) & (times > t - days)], minlength=self.n))
            last = np.full(self.n, -1e9)
            np.maximum.at(last, ids[times <= t], times[times <= t])
            columns.append(t - last)
        return np.stack([*columns, t - self.joined, self.age, np.unique(self.place, return_inverse=True)[1]], 1)


def make(forum, folder):
    (folder / "db").mkdir(parents=True)
    (folder / "manifest.yaml").write_text(MANIFEST)
    for name, columns in forum.tables():
        rows = len(next(iter(columns.values())))
        pd.DataFrame({"Id": np.arange(rows), **columns}).to_parquet(folder / "db" / f"{name}.parquet")
        print(f"{name}: {rows} rows")
    for name, kind, table, column, target, at in forum.tasks():
        to = folder / "tasks" / name
        to.mkdir(parents=True)
        (to / "manifest.yaml").write_text(TASK.format(name=name, kind=kind, table=table, column=column, target=target))
        for part, moments in SEEDS.items():
            rows = []
            for t in moments:
                ids, y = at(t)
                rows.append(pd.DataFrame({"timestamp": moment(np.full(len(ids), t)), column: ids, target: y}))
            pd.concat(rows).sample(frac=1, random_state=0).to_parquet(to / f"{part}.parquet", index=False)


def boost(forum):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.metrics import mean_absolute_error, roc_auc_score

    for name, kind, table, _, _, at in forum.tasks():
        if table != "users":
            continue
        x, y = {}, {}
        for part, moments in SEEDS.items():
            asked = [(forum.features(t)[ids], of) for t in moments for ids, of in [at(t)]]
            x[part], y[part] = (np.concatenate(list(z)) for z in zip(*asked))
        options = {"max_iter": 300, "learning_rate": 0.05, "early_stopping": True, "random_state": 0}
        if kind == "regression":
            model = HistGradientBoostingRegressor(loss="absolute_error", **options).fit(x["train"], y["train"])
            scores = [mean_absolute_error(y[p], model.predict(x[p])) for p in ("val", "test")]
        else:
            model = HistGradientBoostingClassifier(max_leaf_nodes=15, **options).fit(x["train"], y["train"])
            scores = [roc_auc_score(y[p], model.predict_proba(x[p])[:, 1]) for p in ("val", "test")]
        measure = "MAE" if kind == "regression" else "ROC AUC"
        print(f"{name}: {measure} valid {scores[0]:.4f}, test {scores[1]:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "boost"))
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="of make")
    parser.add_argument("--users", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--levels", default="7,20,60,150,400,900")
    o = parser.parse_args()
    forum = Forum(o.users, o.seed, [int(x) for x in o.levels.split(",")])
    if (o.what == "make") != (o.folder is not None):
        parser.error("make takes a folder, boost none")
    if o.what == "make":
        make(forum, o.folder)
    else:
        boost(forum)


if __name__ == "__main__":
    main()
