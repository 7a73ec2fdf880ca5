package store

// tableFiles adds the data files of embedding tables to named.
func (m *meta) tableFiles(named map[string]bool) error { return nil }
