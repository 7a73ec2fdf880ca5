package main

// way is how bytes come to a machine: its disk, or an object store over its network.
type way struct {
	bytesPerSecond float64
	latency        float64 // seconds that a request takes, however small
	depth          float64 // requests under way at a time
}

// seconds is how long so many bytes in so many requests take.
func (w way) seconds(bytes, requests float64) float64 {
	if bytes == 0 {
		return 0
	}
	return max(bytes/w.bytesPerSecond, requests/w.depth*w.latency) + w.latency
}

// machine is what one rank runs on.
type machine struct {
	cores      float64 // as the system counts them
	memory     float64 // bytes
	disk       way     // reading
	diskWrites float64 // bytes a second
	diskBytes  float64
	server     way     // the object store, as this machine reaches it
	network    way     // another rank
	dollars    float64 // an hour
	get        float64 // dollars that the object store takes for a request
	keep       float64 // and for a GB and month
}

// servedBytes is the size of the requests that store/remote makes of an object store where it reads ahead.
const servedBytes = 16 << 20
