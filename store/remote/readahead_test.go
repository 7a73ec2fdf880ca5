package remote

import "testing"

// A file that is read in order is fetched ahead, as far as it was read in order; one that is read here and there is not.
func TestStream(t *testing.T) {
	const mib = 1 << 20
	var s stream
	fetched := int64(0)
	for i := range int64(100) {
		at := i
		if i%2 == 0 { // two threads, which overtake each other
			at = i + 1
		} else {
			at = i - 1
		}
		from, to := s.read(at*mib, mib, 1000*mib, 64*mib)
		if from < to {
			if from < fetched || to > s.end+64*mib || to > s.end+s.run {
				t.Fatalf("at %d MiB: from %d to %d MiB, %d were fetched", at, from/mib, to/mib, fetched/mib)
			}
			fetched = to
		}
	}
	if fetched < 150*mib {
		t.Errorf("%d MiB were fetched when 100 were read", fetched/mib)
	}
	for i := range int64(100) {
		if from, to := s.read((i*377%1000)*mib, mib, 1000*mib, 64*mib); from < to {
			t.Fatalf("read here and there, %d to %d MiB are fetched", from/mib, to/mib)
		}
	}
	s = stream{}
	for i := range int64(20) {
		s.read(i*mib, mib, 20*mib, 64*mib)
	}
	if s.asked != 20*mib {
		t.Errorf("the last that is fetched of 20 MiB ends at %d", s.asked)
	}
}
