package generate

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestShop: a seed is a shop, nothing in it refers to what is not there or was not yet, and products differ in how often they come back.
func TestShop(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, seed uint64) []byte {
		path := filepath.Join(dir, name+".sqlite")
		if err := Shop(t.Context(), path, filepath.Join(dir, name), ShopOptions{Customers: 200, Products: 40, Seed: seed}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := made("a", 1)
	if !bytes.Equal(first, made("b", 1)) || bytes.Equal(first, made("c", 2)) {
		t.Error("a seed is not a shop")
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "a.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, q := range []struct {
		text     string
		low, top float64
	}{
		{"SELECT count(*) FROM orders", 1000, 10000},
		{"SELECT count(*) FROM pragma_foreign_key_check", 0, 0},
		{"SELECT count(*) FROM orders JOIN customers USING (customer_id) WHERE ordered_at < joined_at", 0, 0},
		{"SELECT count(*) FROM returns JOIN order_lines USING (order_id, line) WHERE returned_at < ordered_at", 0, 0},
		{"SELECT max(share) - min(share) FROM (SELECT avg(return_id IS NOT NULL) AS share FROM order_lines LEFT JOIN returns USING (order_id, line) GROUP BY product_id)", .3, 1},
	} {
		var x float64
		if err := db.QueryRowContext(t.Context(), q.text).Scan(&x); err != nil || x < q.low || x > q.top {
			t.Errorf("%s: %v, %v, expected %v to %v", q.text, x, err, q.low, q.top)
		}
	}
	if err := Shop(t.Context(), filepath.Join(dir, "a.sqlite"), filepath.Join(dir, "d"), ShopOptions{}); err == nil {
		t.Error("a file was overwritten")
	}
}
