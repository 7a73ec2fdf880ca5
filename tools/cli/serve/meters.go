package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// meters are what Prometheus reads.
type meters struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	reloads  *prometheus.CounterVec
}

func newMeters() *meters {
	m := &meters{registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gstore_requests_total",
			Help: "Requests that were answered."}, []string{"path", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gstore_request_seconds",
			Help: "How long requests took.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
				30}}, []string{"path"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gstore_reloads_total",
			Help: "New versions and models that were taken up, or could not be."}, []string{"result"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.reloads, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// handler writes the meters, with those of the state.
func (m *meters) handler(s *server) http.Handler {
	gauge := func(name, help string, of func(x *state) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			x := s.use()
			defer x.requests.Done()
			return of(x)
		}))
	}
	gauge("gstore_store_version", "Version of the store that is served.",
		func(x *state) float64 { return float64(x.st.Manifest().Version) })
	gauge("gstore_store_nodes", "Nodes of that version.", func(x *state) float64 { return float64(x.st.Manifest().Nodes) })
	gauge("gstore_store_edges", "Edges of that version.", func(x *state) float64 { return float64(x.st.Manifest().Edges) })
	gauge("gstore_edges_memory_bytes", "Memory that edges take.",
		func(x *state) float64 { return float64(x.lists.MemoryBytes()) })
	gauge("gstore_models", "Models that are served.", func(x *state) float64 { return float64(len(x.models)) })
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// count counts a request.
func (m *meters) count(path, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodPost:
	default: // any word may be one
		method = "other"
	}
	m.requests.WithLabelValues(path, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(path).Observe(took.Seconds())
}
