package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/cli/command"
)

// Paths of requests.
const (
	pathStore      = "/v1/store"
	pathNodes      = "/v1/nodes"
	pathNeighbors  = "/v1/neighbors"
	pathPredict    = "/v1/predict"
	pathExplain    = "/v1/explain"
	pathLinks      = "/v1/links"
	pathNearest    = "/v1/nearest"
	pathEmbeddings = "/v1/embeddings"
	pathTargets    = "/v1/targets"
	pathRecommend  = "/v1/recommend"
)

// answerer answers a request from a state: with what becomes JSON, or an error.
type answerer func(ctx context.Context, x *state, r *http.Request) (any, error)

// handler is the server's.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	s.paths = map[string]bool{}
	for path := range beside {
		s.paths[path] = true
	}
	for _, r := range s.routes() {
		s.paths[r.path] = true
		mux.Handle(r.method+" "+r.path, s.slotted(s.answering(r)))
	}
	description := s.openAPI()
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusOK, "application/json", description)
	})
	mux.Handle("GET /metrics", s.meters.handler(s))
	for path, make := range s.pagers() {
		mux.Handle("GET "+path, s.slotted(s.paging(make)))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		status, code := http.StatusNotFound, "not_found"
		if s.known(r) != other {
			status, code = http.StatusMethodNotAllowed, "no_such_method"
		}
		fail(w, status, code, fmt.Sprintf("there is no %s %s: GET /openapi.json lists what there is", r.Method,
			r.URL.Path))
	})
	all := http.NewServeMux()
	all.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusOK, "application/json", []byte("{\"status\":\"ok\"}\n"))
	})
	all.Handle("/", s.allowed(mux))
	return s.observed(all)
}

// allowed lets requests through that have the token, where there is one. Where there is none, and only this machine can ask, they must name it:
// a page of the web whose name leads here would else have a browser ask for it.
func (s *server) allowed(next http.Handler) http.Handler {
	if s.o.token == "" && s.o.clientCA == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host := r.Host
			if name, _, err := net.SplitHostPort(host); err == nil {
				host = name
			}
			if !ownAddress(strings.Trim(host, "[]")) {
				fail(w, http.StatusForbidden, "forbidden", "this server answers at addresses of its own machine alone, such as localhost: --token-file opens it to others")
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	if s.o.token == "" {
		return next
	}
	want := sha256.Sum256([]byte(s.o.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok { // a browser asks its user for a name, which is any, and a password
			_, token, ok = r.BasicAuth()
		}
		if got := sha256.Sum256([]byte(token)); !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="gstore", Bearer`)
			fail(w, http.StatusUnauthorized, "unauthorized",
				"this server asks for a token: Authorization: Bearer TOKEN")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// slotted refuses more requests than are worked on or wait at a time.
func (s *server) slotted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			w.Header().Set("Retry-After", "1")
			fail(w, http.StatusServiceUnavailable, "busy", fmt.Sprintf("%d requests are worked on or wait already: try again", s.o.most))
			return
		}
		next.ServeHTTP(w, q)
	})
}

// bodyBytes is about what a byte of a body takes, as it is and decoded.
const bodyBytes = 12

// answering answers a route within time and size.
func (s *server) answering(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ctx, cancel := context.WithTimeout(q.Context(), s.o.timeout)
		defer cancel()
		size := int64(s.o.body)
		if q.ContentLength >= 0 {
			size = min(size, q.ContentLength)
		}
		done, err := s.bodies.carry(ctx, bodyBytes*size)
		if err != nil {
			s.refuse(w, q, err)
			return
		}
		defer done()
		body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, int64(s.o.body)))
		var answer any
		if err == nil {
			answer, err = s.answer(ctx, r.answer, q, body)
		}
		if err != nil {
			s.refuse(w, q, err)
			return
		}
		b, err := encode(answer)
		if err != nil {
			s.refuse(w, q, err)
			return
		}
		send(w, http.StatusOK, "application/json", b)
	})
}

// answer answers from the state that is served. Where its version was swept from the store meanwhile, with the dictionary of ids, the one that is
// there now answers.
func (s *server) answer(ctx context.Context, by answerer, q *http.Request, body []byte) (any, error) {
	for {
		q.Body = io.NopCloser(bytes.NewReader(body))
		x, answer, err := s.answerOnce(ctx, by, q)
		if !errors.Is(err, store.ErrSwept) || s.o.version != 0 {
			return answer, err
		}
		if again := s.renew(ctx, x); again != nil {
			return nil, errors.Join(err, again)
		}
	}
}

func (s *server) answerOnce(ctx context.Context, by answerer, q *http.Request) (x *state, answer any, err error) {
	x = s.use()
	defer x.requests.Done()
	answer, err = by(ctx, x, q)
	return x, answer, err
}

// encode is JSON without escapes of what only HTML minds.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// badRequest is a mistake in a request.
type badRequest struct{ text string }

func (b *badRequest) Error() string { return b.text }

func badf(format string, args ...any) error { return &badRequest{fmt.Sprintf(format, args...)} }

// badRequestOf makes a mistake of an error.
func badRequestOf(err error) error { return &badRequest{plain(err)} }

// decode reads the body of a request: one JSON object, of fields that there are.
func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows the object")
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return badf("the body is empty: expected a JSON object")
	case err != nil:
		return badf("the body is no such object: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// refuse answers with an error, and logs one that is the server's.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, said := s.verdict(r, err)
	if said.Code == codeBusy {
		w.Header().Set("Retry-After", "10")
	}
	fail(w, status, said.Code, said.Message)
}

// codeBusy says that an answer will be there later.
const codeBusy = "busy"

// verdict is what an error is to who asked; one that is the server's is logged.
func (s *server) verdict(r *http.Request, err error) (status int, said problem) {
	var bad *badRequest
	var later *busy
	var large *http.MaxBytesError
	text := plain(err)
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, problem{"too_large",
			fmt.Sprintf("the body has more than %d bytes, which --most-body allows", large.Limit)}
	case errors.Is(err, store.ErrBudget):
		return http.StatusUnprocessableEntity, problem{"too_much", text}
	case errors.As(err, &bad), ingest.Refused(err), command.IsUsage(err):
		return http.StatusBadRequest, problem{"bad_request", text}
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound, problem{"not_found", text}
	case errors.As(err, &later):
		return http.StatusServiceUnavailable, problem{codeBusy, later.text}
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, problem{"timeout", fmt.Sprintf("it took longer than %v, which --timeout allows", s.o.timeout)}
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, problem{"ended", "the server ends, or the client went away"}
	case errors.Is(err, blocks.ErrCorrupt):
		s.log.Error("damage", "path", r.URL.Path, "error", err)
		return http.StatusInternalServerError, problem{"damaged", text}
	}
	s.log.Error("request", "path", r.URL.Path, "error", err)
	return http.StatusInternalServerError, problem{"failed", text}
}

// plain is what an error says without the packages that it came through.
func plain(err error) string {
	text := err.Error()
	for _, of := range []string{"infer: ", "explain: ", "evaluation: ", "store: ", "not found: ", "invalid: "} {
		text = strings.TrimPrefix(text, of)
	}
	return text
}

// problem is what an error says in JSON.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func fail(w http.ResponseWriter, status int, code, message string) {
	b, err := encode(map[string]problem{"error": {code, message}})
	if err != nil {
		b = []byte("{}\n")
	}
	send(w, status, "application/json", b)
}

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", fmt.Sprint(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away
}

// recorder knows what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	n, err := r.ResponseWriter.Write(b)
	r.bytes += n
	return n, err
}

// observed logs and counts requests, and answers for those that panic.
func (s *server) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, rec := time.Now(), &recorder{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("panic", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if rec.status == 0 {
					fail(rec, http.StatusInternalServerError, "failed", "the server made a mistake; its log has it")
				}
			}
			took := time.Since(began)
			s.meters.count(s.known(r), r.Method, rec.status, took)
			if s.o.log == logRequests {
				s.log.Info("request", "method", r.Method, "path", r.URL.Path, "status", rec.status, "bytes", rec.bytes,
					"ms", float64(took.Microseconds())/1000, "from", r.RemoteAddr)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// other stands for paths that there are not.
const other = "other"

// known is a request's path: those of meters are few.
func (s *server) known(r *http.Request) string {
	switch {
	case s.paths[r.URL.Path]:
		return r.URL.Path
	case strings.HasPrefix(r.URL.Path, pathRuns+"/"):
		return pathRuns
	}
	return other
}
