package inspect

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/cuda"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// NewDevices is the command gstore devices.
func NewDevices(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List what --device can name: the host and the GPUs",
		Long: `Devices lists what training and evaluation can compute on. GPUs are listed if gstore
was built with CUDA; the last line says why there are none.`,
		Example: "  gstore devices\n  gstore train cora.gstore --device cuda:0",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runDevices(e) },
	}
}

func runDevices(e *command.Env) error {
	host, err := device.Open(device.Options{Name: "host"})
	if err != nil {
		return err
	}
	defer host.Close()
	gpus, why := cuda.Devices()
	if e.JSON {
		e.Event("device", map[string]any{"name": "host", "detail": host.Info().Detail})
		for _, g := range gpus {
			e.Event("device", map[string]any{"name": fmt.Sprintf("cuda:%d", g.Ordinal), "detail": g.Name, "capability": fmt.Sprintf("%d.%d", g.Major, g.Minor),
				"memory_bytes": g.MemoryBytes, "free_bytes": g.FreeBytes})
		}
		return nil
	}
	fmt.Fprintf(e.Stdout, "%-8s  %s\n", "host", host.Info().Detail)
	for _, g := range gpus {
		fmt.Fprintf(e.Stdout, "cuda:%-3d  %s, compute capability %d.%d, %s, %s free\n", g.Ordinal, g.Name, g.Major, g.Minor, command.FormatSize(g.MemoryBytes), command.FormatSize(g.FreeBytes))
	}
	if why != nil {
		fmt.Fprintf(e.Stdout, "no GPU: %v\n", why)
	} else if len(gpus) == 0 {
		fmt.Fprintln(e.Stdout, "no GPU: the CUDA driver has no device")
	}
	return nil
}
