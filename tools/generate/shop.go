package generate

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	_ "modernc.org/sqlite" // the file's format
)

// ShopOptions says what shop is made.
type ShopOptions struct {
	Customers int // default 1500
	Products  int // default 300
	Seed      uint64
}

// The days that a shop's history has.
const (
	shopOpens = "2022-01-01"
	shopEnds  = "2025-12-31"
)

// shopTables are its tables. Nothing says of a product how good it is, nor of a customer how content: returns do.
const shopTables = `
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, city TEXT NOT NULL, joined_at TEXT NOT NULL);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, category TEXT NOT NULL, price REAL NOT NULL);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers, ordered_at TEXT NOT NULL, channel TEXT NOT NULL);
CREATE TABLE order_lines (order_id INTEGER REFERENCES orders, line INTEGER, product_id INTEGER NOT NULL REFERENCES products, quantity INTEGER NOT NULL, ordered_at TEXT NOT NULL,
  PRIMARY KEY (order_id, line));
CREATE TABLE returns (return_id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, line INTEGER NOT NULL, reason TEXT, returned_at TEXT NOT NULL,
  FOREIGN KEY (order_id, line) REFERENCES order_lines (order_id, line));
CREATE INDEX orders_of ON orders (customer_id, ordered_at);
`

// shopTask asks of customers who ordered lately whether they do again within 45 days.
const shopTask = `name: orders-again
task_type: binary_classification
entity_table: customers
entity_col: customer_id
time_col: day
target_col: again
source: %s
queries:
  train: |
    WITH RECURSIVE days(day) AS (SELECT '2023-01-01' UNION ALL SELECT date(day, '+1 month') FROM days WHERE day < '2025-02-01')%[2]s
  val: |
    WITH RECURSIVE days(day) AS (SELECT '2025-04-01' UNION ALL SELECT date(day, '+1 month') FROM days WHERE day < '2025-06-01')%[2]s
  test: |
    WITH RECURSIVE days(day) AS (SELECT '2025-08-01' UNION ALL SELECT date(day, '+1 month') FROM days WHERE day < '2025-11-01')%[2]s
`

const shopAnswer = `
    SELECT customer_id, day, EXISTS (SELECT * FROM orders o WHERE o.customer_id = c.customer_id AND ordered_at > day AND ordered_at <= date(day, '+45 days')) AS again
    FROM days JOIN customers c ON EXISTS (SELECT * FROM orders o WHERE o.customer_id = c.customer_id AND ordered_at <= day AND ordered_at > date(day, '-120 days'))
    ORDER BY day, customer_id`

// shop is what is drawn so far.
type shop struct {
	quality    []float64 // of products
	categories [][]int   // products of each
	orders     []order
}

type order struct {
	customer int
	at       time.Time
	channel  string
	lines    []line
}

type line struct {
	product, quantity int
	returned          time.Time // zero: it was kept
	reason            any
}

var (
	shopCities     = []string{"Bergen", "Delft", "Ghent", "Lyon", "Porto", "Riga", "Siena", "Tartu", "Turku", "Ulm"}
	shopCategories = []string{"books", "bikes", "garden", "kitchen", "lamps", "shoes", "tools", "toys"}
	shopChannels   = []string{"app", "shop", "web"}
	shopReasons    = []any{"broken", "wrong size", "not as described", nil}
)

// Shop makes the SQLite file of a shop that sold for four years, and folder task beside it with a training table of queries: who orders
// again? Customers leave after products that they sent back, and some products are sent back often, whoever buys them.
func Shop(ctx context.Context, path, task string, o ShopOptions) (err error) {
	o.Customers, o.Products = cmp.Or(o.Customers, 1500), cmp.Or(o.Products, 300)
	if o.Customers < 1 || o.Products < len(shopCategories) {
		return badf("a shop of %d customers and %d products, expected 1 and %d or more", o.Customers, o.Products, len(shopCategories))
	}
	for _, p := range []string{path, task} {
		if _, err := os.Stat(p); err == nil {
			return fmt.Errorf("%s exists", p)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, shopTables); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fillShop(ctx, tx, o); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := os.MkdirAll(task, 0o777); err != nil {
		return err
	}
	source, err := filepath.Rel(task, path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(task, "manifest.yaml"), fmt.Appendf(nil, shopTask, source, shopAnswer), 0o666)
}

// fillShop draws everything and writes it.
func fillShop(ctx context.Context, tx *sql.Tx, o ShopOptions) error {
	s := &shop{categories: make([][]int, len(shopCategories))}
	into := func(text string) (func(...any) error, error) {
		stmt, err := tx.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		return func(args ...any) error { _, err := stmt.ExecContext(ctx, args...); return err }, nil
	}
	product, e1 := into("INSERT INTO products VALUES (?, ?, ?)")
	customer, e2 := into("INSERT INTO customers VALUES (?, ?, ?)")
	ordered, e3 := into("INSERT INTO orders VALUES (?, ?, ?, ?)")
	sold, e4 := into("INSERT INTO order_lines VALUES (?, ?, ?, ?, ?)")
	back, e5 := into("INSERT INTO returns VALUES (?, ?, ?, ?, ?)")
	if err := errors.Join(e1, e2, e3, e4, e5); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(o.Seed, 0))
	for p := range o.Products {
		c := p % len(shopCategories)
		s.quality, s.categories[c] = append(s.quality, r.NormFloat64()), append(s.categories[c], p)
		if err := product(p+1, shopCategories[c], math.Round(100*math.Exp(3+float64(c)/4+r.NormFloat64()/2))/100); err != nil {
			return err
		}
	}
	opens, _ := time.Parse(time.DateOnly, shopOpens)
	ends, _ := time.Parse(time.DateOnly, shopEnds)
	for c := range o.Customers {
		r := rand.New(rand.NewPCG(o.Seed, uint64(c)+1))
		joined := opens.Add(time.Duration(r.Float64() * .9 * float64(ends.Sub(opens))))
		if err := customer(c+1, shopCities[r.IntN(len(shopCities))], joined.Format(time.DateTime)); err != nil {
			return err
		}
		s.buy(r, c+1, joined, ends)
	}
	slices.SortFunc(s.orders, func(a, b order) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.customer, b.customer)) })
	returns := 0
	for n, x := range s.orders {
		at := x.at.Format(time.DateTime)
		if err := ordered(n+1, x.customer, at, x.channel); err != nil {
			return err
		}
		for k, l := range x.lines {
			if err := sold(n+1, k+1, l.product+1, l.quantity, at); err != nil {
				return err
			}
			if l.returned.IsZero() || l.returned.After(ends) {
				continue
			}
			returns++
			if err := back(returns, n+1, k+1, l.reason, l.returned.Format(time.DateTime)); err != nil {
				return err
			}
		}
	}
	return nil
}

// buy draws the orders of a customer: the more content, the sooner the next.
func (s *shop) buy(r *rand.Rand, customer int, at, ends time.Time) {
	content, rate := .5, math.Exp(.1+.5*r.NormFloat64()) // orders a month
	likes := [2]int{r.IntN(len(s.categories)), r.IntN(len(s.categories))}
	channel := shopChannels[r.IntN(len(shopChannels))]
	for {
		days := (r.ExpFloat64() + r.ExpFloat64() + r.ExpFloat64()) * 10 / (rate * math.Exp(min(content, 1)))
		if at = at.Add(time.Duration(days * 24 * float64(time.Hour))); days > 400 || at.After(ends) {
			return
		}
		x := order{customer: customer, at: at, channel: channel}
		for range 1 + r.IntN(3) {
			of := s.categories[likes[r.IntN(2)]]
			l := line{product: of[r.IntN(len(of))], quantity: 1 + r.IntN(3)}
			if content += .15; r.Float64() < 1/(1+math.Exp(1.6+1.6*s.quality[l.product])) {
				l.returned, l.reason = at.Add(time.Duration((2+12*r.Float64())*24*float64(time.Hour))), shopReasons[r.IntN(len(shopReasons))]
				content -= .9
			}
			x.lines = append(x.lines, l)
		}
		content = max(-3, min(content, 1))
		s.orders = append(s.orders, x)
	}
}
