package serve

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// parameter is one of a request's query.
type parameter struct {
	name, doc string
	many      bool // it may be there several times
	needed    bool
	example   string
}

// route is a request that the server answers, and what describes it.
type route struct {
	method, path string
	summary      string
	query        []parameter
	body         any    // its zero value; nil: none
	example      string // of the body
	answers      any    // its zero value
	answer       answerer
}

// The parameters of requests by GET.
var (
	byID         = parameter{name: "id", doc: "the node's id", needed: true, example: "12"}
	byIDs        = parameter{name: "id", doc: "the node's id", needed: true, example: "12", many: true}
	byColumn     = parameter{name: "column", doc: "a column of nodes (default: all of data)", many: true}
	byDirection  = parameter{name: "direction", doc: "in, out or both (default)"}
	byRelation   = parameter{name: "relation", doc: "of this relation alone"}
	byEdgeColumn = parameter{name: "column", doc: "a column of edges", many: true}
	byLimit      = parameter{name: "limit", doc: "how many, at most 10000 (default 100)"}
	byOffset     = parameter{name: "offset", doc: "how many to leave out before"}
)

// routes are the requests that need a state.
func (s *server) routes() []route {
	get := func(path, summary string, query []parameter, answers any, answer answerer) route {
		return route{http.MethodGet, path, summary, query, nil, "", answers, answer}
	}
	post := func(path, summary string, body any, example string, answers any, answer answerer) route {
		return route{http.MethodPost, path, summary, nil, body, example, answers, answer}
	}
	return []route{
		get(pathStore, "What is served: sizes, types, relations, columns, models", nil, storeAnswer{}, s.describe),
		get(pathNodes, "Look nodes up", []parameter{byIDs, byColumn}, nodesAnswer{}, s.node),
		post(pathNodes, "Look many nodes up",
			nodesRequest{}, `{"ids": [12, 15], "columns": ["label"]}`, nodesAnswer{}, s.nodes),
		get(pathNeighbors, "A node's edges, in an order that does not change",
			[]parameter{byID, byDirection, byRelation, byEdgeColumn, byLimit, byOffset}, neighborsAnswer{}, s.neighbors),
		post(pathPredict, "What a model says of nodes, and of nodes that the store does not have",
			predictRequest{}, `{"nodes": [12, 15], "top": 3}`, predictAnswer{}, s.predict),
		post(pathExplain, "Why a model says what it says of a node",
			explainRequest{}, `{"node": 12}`, explainAnswer{}, s.explain),
		post(pathLinks, "The best heads or tails of links",
			linksRequest{}, `{"questions": [{"head": "paris", "relation": "capital_of", "tail": "?"}], "top": 3}`,
			linksAnswer{}, s.links),
		post(pathNearest, "The most similar nodes, by a model's states below its last layer or by embeddings",
			nearestRequest{}, `{"nodes": ["paris"], "top": 3}`, linksAnswer{}, s.nearest),
		post(pathEmbeddings, "Vectors of nodes: a model's states below its last layer, or embeddings",
			embeddingsRequest{}, `{"nodes": ["paris"]}`, embeddingsAnswer{}, s.embeddings),
		post(pathTargets, "What a model says of rows of a database as of a moment",
			targetsRequest{}, `{"rows": [12, 15], "at": "2026-11-01"}`, targetsAnswer{}, s.targets),
		post(pathRecommend, "The best rows of a table for rows of another, as of a moment",
			targetsRequest{}, `{"rows": [12], "top": 5}`, targetsAnswer{}, s.recommend),
	}
}

// beside are the paths that need no state, or are not JSON.
var beside = map[string]string{
	"/healthz":      "Whether the server runs; needs no token",
	"/metrics":      "Meters, in Prometheus' text format",
	"/openapi.json": "This description",
	"/":             "The store, for people (HTML)",
	pathRuns:        "Its training runs, for people (HTML)",
	pathFeatures:    "How the values of features are spread, for people (HTML)",
	pathMistakes:    "What the model mistakes for what, for people (HTML)",
	pathMap:         "Nodes by what the model says of them, for people (HTML)",
}

// object is one of JSON.
type object = map[string]any

// openAPI describes all requests (OpenAPI 3.1), from the types of what they carry.
func (s *server) openAPI() []byte {
	schemas, paths := object{}, object{}
	failed := object{"description": "A mistake, or what the server could not do: code says which, message what to do",
		"content": object{"application/json": object{"schema": schemaOf(reflect.TypeFor[struct {
			Error problem `json:"error"`
		}](), schemas)}}}
	for _, r := range s.routes() {
		method := strings.ToLower(r.method)
		answer := object{"schema": schemaOf(reflect.TypeOf(r.answers), schemas)}
		o := object{"summary": r.summary, "operationId": method + strings.ReplaceAll(strings.TrimPrefix(r.path, "/v1"), "/", "_"),
			"responses": object{"default": failed, "200": object{"description": "The answer", "content": object{"application/json": answer}}}}
		var list []object
		for _, p := range r.query {
			schema := object{"type": "string"}
			if p.many {
				schema = object{"type": "array", "items": schema}
			}
			x := object{"name": p.name, "in": "query", "description": p.doc, "schema": schema}
			if p.needed {
				x["required"] = true
			}
			if p.example != "" {
				x["example"] = p.example
			}
			list = append(list, x)
		}
		if list != nil {
			o["parameters"] = list
		}
		if r.body != nil {
			body := object{"schema": schemaOf(reflect.TypeOf(r.body), schemas), "example": json.RawMessage(r.example)}
			o["requestBody"] = object{"required": true, "content": object{"application/json": body}}
		}
		of, _ := paths[r.path].(object)
		if of == nil {
			of = object{}
			paths[r.path] = of
		}
		of[method] = o
	}
	for path, summary := range beside {
		paths[path] = object{"get": object{"summary": summary, "responses": object{"200": object{"description": "It"}}}}
	}
	doc := object{"openapi": "3.1.0", "info": object{"title": "gstore serve", "version": "1",
		"description": "Look-ups and predictions of a gstore store. Paths under /v1 keep their meaning; fields may be added to answers."},
		"paths": paths, "components": object{"schemas": schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}}}
	if s.o.token != "" {
		doc["security"] = []object{{"token": []string{}}}
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		panic(err) // of constants
	}
	return append(b, '\n')
}

// schemaOf describes a type. Structs that have a name are described once, in schemas.
func schemaOf(t reflect.Type, schemas object) object {
	switch t {
	case reflect.TypeFor[id]():
		return object{"type": []string{"string", "integer"}, "description": "an id as the user's data has it"}
	case reflect.TypeFor[json.RawMessage]():
		return object{"description": "a list of numbers, a number, a text, true, false or null"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.Struct:
		if t.Name() == "Time" {
			return object{"type": "string", "format": "date-time"}
		}
		if t.Name() == "" {
			return structOf(t, schemas)
		}
		if _, ok := schemas[t.Name()]; !ok {
			schemas[t.Name()] = object{}
			schemas[t.Name()] = structOf(t, schemas)
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	}
	return object{} // anything
}

// structOf describes the fields of a struct. Those of answers that are always there are required.
func structOf(t reflect.Type, schemas object) object {
	fields, required := object{}, []string{}
	request := strings.HasSuffix(t.Name(), "Request")
	asks := request || slices.Contains([]string{"newNode", "newEdge", "linkQuestion"}, t.Name())
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		x := schemaOf(f.Type, schemas)
		if doc := f.Tag.Get("doc"); doc != "" {
			if _, refers := x["$ref"]; !refers {
				x["description"] = doc
			}
		}
		if fields[name] = x; options == "" && !asks {
			required = append(required, name)
		}
	}
	o := object{"type": "object", "properties": fields}
	if len(required) > 0 {
		o["required"] = required
	}
	if request {
		o["additionalProperties"] = false
	}
	return o
}
