package targets_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// tastes writes a database of users who buy and listen. Users of a taste, which no column says, buy items of it and none twice; and each
// listens to the same few songs again and again.
func tastes(t *testing.T, users int) (dir string) { return tastesUntil(t, users, 240) }

// tastesUntil is tastes as it was known on a day.
func tastesUntil(t *testing.T, users int, last float64) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const groups, items, songs = 5, 60, 80
	at := func(day float64) string {
		return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(day * 24 * float64(time.Hour))).Format(time.DateTime)
	}
	var people, things, tunes, buys, plays bytes.Buffer
	people.WriteString("user_id,age\n")
	things.WriteString("item_id,price\n")
	tunes.WriteString("song_id,length\n")
	buys.WriteString("user_id,item_id,at\n")
	plays.WriteString("user_id,song_id,at\n")
	parts := map[string]*bytes.Buffer{}
	for _, task := range []string{"items", "songs"} {
		put(t, dir, "tasks/"+task+"/manifest.yaml", fmt.Sprintf("task_type: recommendation\nsrc_entity_table: user\nsrc_entity_col: user_id\ndst_entity_table: %s\ntime_col: at\ntarget_col: %s\neval_k: 5\n", strings.TrimSuffix(task, "s"), task))
		for _, part := range []string{"train", "val", "test"} {
			parts[task+part] = bytes.NewBufferString("at,user_id," + task + "\n")
		}
	}
	r := keyed.New(5).Rand(0)
	for i := range items {
		fmt.Fprintf(&things, "%d,%d\n", i, 1+r.Below(50))
	}
	for i := range songs {
		fmt.Fprintf(&tunes, "%d,%d\n", i, 1+r.Below(50))
	}
	for u := range users {
		fmt.Fprintf(&people, "%d,%d\n", u, 20+r.Below(50))
		taste := int(r.Below(groups))
		order := keyed.NewPermutation(keyed.New(9).With(uint64(u)), items/groups)
		liked := []int{int(r.Below(songs)), int(r.Below(songs)), int(r.Below(songs))}
		bought, played := map[int][]int{}, map[int][]int{} // by month
		for k := range 10 {
			day, item := r.Float64()*240, taste+groups*int(order.At(uint64(k)))
			if day <= last {
				fmt.Fprintf(&buys, "%d,%d,%s\n", u, item, at(day))
			}
			bought[int(day)/30] = append(bought[int(day)/30], item)
			for range 3 {
				day, song := r.Float64()*240, liked[r.Below(3)]
				if day <= last {
					fmt.Fprintf(&plays, "%d,%d,%s\n", u, song, at(day))
				}
				played[int(day)/30] = append(played[int(day)/30], song)
			}
		}
		for month := 2; month < 8; month++ {
			part := map[int]string{6: "val", 7: "test"}[month]
			if part == "" {
				part = "train"
			}
			for task, lists := range map[string]map[int][]int{"items": bought, "songs": played} {
				if list := lists[month]; len(list) > 0 {
					fmt.Fprintf(parts[task+part], "%s,%d,%s\n", at(float64(30*month)), u, strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", "|"), "[]"))
				}
			}
		}
	}
	for name, b := range map[string]*bytes.Buffer{"user": &people, "item": &things, "song": &tunes, "buy": &buys, "play": &plays} {
		put(t, dir, name+".csv", b.String())
	}
	for _, task := range []string{"items", "songs"} {
		for _, part := range []string{"train", "val", "test"} {
			put(t, dir, "tasks/"+task+"/"+part+".csv", parts[task+part].String())
		}
	}
	put(t, dir, "shelf.csv", "shelf_id,width\n0,1\n1,2\n2,1\n") // which nothing refers to
	put(t, dir, "schema.yaml", "tables:\n  user: {key: user_id}\n  shelf: {key: shelf_id}\n  item: {key: item_id}\n  song: {key: song_id}\n"+
		"  buy: {time: at, references: [{columns: user_id, table: user}, {columns: item_id, table: item}]}\n"+
		"  play: {time: at, references: [{columns: user_id, table: user}, {columns: song_id, table: song}]}\n")
	return dir
}

// What comes again is recommended, and so is what those buy who bought the same; a saved model recommends what it was tested with, in a
// store of other partitions, by other threads and within memory.
func TestRecommendations(t *testing.T) {
	race.SkipArithmetic(t)
	dir := tastes(t, 400)
	st, dev := open(t, dir, ingest.Options{}), device(t, 2)
	train := func(task string, epochs int) *targets.Checkpoint {
		c, err := targets.Train(t.Context(), st, dev, targets.Config{Targets: filepath.Join(dir, "tasks", task), Epochs: epochs, Hidden: 32, BatchSize: 64}, targets.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// 5 of 60 items at random have a recall of .083, those of the right taste that were not bought, of which there are two to nine, most of it.
	if s := train("items", 20).Summary; s.Test.Recall < .3 || s.Test.Recall < 2*s.TestConstant.Recall || s.Share == 0 {
		t.Errorf("items of a taste: %+v", s)
	}
	c := train("songs", 3)
	if s := c.Summary; s.Test.MAP < .8 || s.Test.MAP < s.TestConstant.MAP+.3 {
		t.Errorf("songs that come again: %+v", s)
	}
	task, err := database.OpenTask(nil, filepath.Join(dir, "tasks", "songs"))
	if err != nil {
		t.Fatal(err)
	}
	test, err := task.Read(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, dir, ingest.Options{Partitions: 4}) // whose rows lie elsewhere
	ids := make([]store.NodeID, len(test.Keys))
	if err := other.LookupStrings(t.Context(), test.Keys, ids); err != nil {
		t.Fatal(err)
	}
	var questions []targets.Question
	for i, id := range ids {
		questions = append(questions, targets.Question{Node: id, Moment: test.Times[i]})
	}
	again := *c
	again.Config.MemoryBytes = 512 << 20
	answers, err := targets.Recommend(t.Context(), other, device(t, 1), &again, again.Config, questions, c.Task.K, false)
	if err != nil {
		t.Fatal(err)
	}
	precision := 0.
	for i, list := range answers {
		var nodes []store.NodeID
		for _, r := range list {
			nodes = append(nodes, r.Node)
		}
		names, err := other.ExternalStrings(t.Context(), nodes)
		if err != nil {
			t.Fatal(err)
		}
		var right []string
		for _, w := range test.Words[i] {
			if !slices.Contains(right, w) {
				right = append(right, w)
			}
		}
		hits, sum := 0., 0.
		for rank, name := range names {
			if slices.Contains(right, name) {
				hits++
				sum += hits / float64(rank+1)
			}
		}
		precision += sum / float64(min(len(right), c.Task.K))
	}
	if precision /= float64(len(answers)); precision < c.Summary.Test.MAP-1e-9 || precision > c.Summary.Test.MAP+1e-9 {
		t.Errorf("MAP %v of the saved model's answers, %v when it was tested", precision, c.Summary.Test.MAP)
	}
	fresh, err := targets.Recommend(t.Context(), other, device(t, 1), &again, again.Config, questions[:20], 80, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, list := range fresh { // of 80 songs each user has listened to one to three, what is right in a user's test among them
		if len(list) < 77 || len(list) > 79 {
			t.Errorf("user %d: %d songs are new, expected 77 to 79", i, len(list))
		}
	}
}

// What is recommended at a moment is what a store recommends that has nothing later: neither what an entity did next nor what became popular is
// read before its time.
func TestRecommendationsReadNothingLater(t *testing.T) {
	const users, day = 80, 150
	dir := tastes(t, users)
	whole := open(t, dir, ingest.Options{Normalize: ingest.NormalizeNone})
	cut := open(t, tastesUntil(t, users, day), ingest.Options{Normalize: ingest.NormalizeNone, Partitions: 3})
	dev := device(t, 2)
	for _, task := range []string{"items", "songs"} {
		c, err := targets.Train(t.Context(), whole, dev, targets.Config{Targets: filepath.Join(dir, "tasks", task), Epochs: 2, Hidden: 8}, targets.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		c.Summary.Share = 1 // so that every part of a score counts
		moment := time.Date(2024, 1, 1+day, 0, 0, 0, 0, time.UTC).Unix()
		answers := func(st *store.Store) (told []string) {
			ids, names := make([]store.NodeID, users), []string(nil)
			for u := range users {
				names = append(names, fmt.Sprintf("user:%d", u))
			}
			if err := st.LookupStrings(t.Context(), names, ids); err != nil {
				t.Fatal(err)
			}
			var asked []targets.Question
			for _, id := range ids {
				asked = append(asked, targets.Question{Node: id, Moment: moment})
			}
			lists, err := targets.Recommend(t.Context(), st, dev, c, c.Config, asked, 5, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range lists {
				for _, r := range list {
					name, err := st.External(t.Context(), r.Node)
					if err != nil {
						t.Fatal(err)
					}
					told = append(told, fmt.Sprint(name, " ", r.Score))
				}
			}
			return told
		}
		if a, b := answers(whole), answers(cut); !slices.Equal(a, b) {
			t.Errorf("%s: with later rows\n%v\nwithout\n%v", task, a, b)
		}
	}
}

// Rows that nothing refers to can be recommended, and keys that are no rows' are refused.
func TestRecommendationsOfLoneRows(t *testing.T) {
	dir := tastes(t, 20)
	st, dev := open(t, dir, ingest.Options{}), device(t, 1)
	for list, want := range map[string]string{"1|2": "", "7|8": `none of the 40 keys that a part of the training table lists, such as "7", is a row of table "shelf"`} {
		task := t.TempDir()
		put(t, task, "manifest.yaml", "task_type: recommendation\nentity_table: user\nentity_col: user_id\ndst_entity_table: shelf\ntime_col: at\ntarget_col: y\n")
		for _, part := range []string{"train", "val", "test"} {
			text := "at,user_id,y\n"
			for u := range 20 {
				text += fmt.Sprintf("2024-05-01,%d,%s\n", u, list)
			}
			put(t, task, part+".csv", text)
		}
		c, err := targets.Train(t.Context(), st, dev, targets.Config{Targets: task, Epochs: 3, Hidden: 8}, targets.Hooks{})
		if want == "" && (err != nil || c.Summary.Test.Recall != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, expected %q", list, err, want)
		}
	}
}
