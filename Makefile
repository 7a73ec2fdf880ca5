.PHONY: demo test check generate
demo: ## ingest the embedded Cora and train on it
	go run ./tools/gstore demo
test: ## every test
	go test ./...
check: ## what CI runs
	.ci/run
generate: ## the assembly kernels, from their generator
	go generate ./...
