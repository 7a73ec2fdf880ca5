.PHONY: demo test check generate cuda
demo: ## ingest the embedded Cora and train on it
	go run ./tools/gstore demo
test: ## every test
	go test ./...
cuda: ## bin/gstore with CUDA, see docs/gpu.md
	gpu/cuda/build.sh gstore
check: ## what CI runs
	.ci/run
generate: ## the assembly kernels, from their generator
	go generate ./...
