// PicoClaw's own host as a side of the benchmark: its hook manager asks one hook process, as its agent loop does.
//
// It is given the hook's command. For each line "HOW COUNT AT_ONCE" of its input it asks so many questions, so many of them at once,
// and writes the seconds of one. With "hook" it asks the process hook alone, which has no deadline and makes no copies of the call.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/sipeed/picoclaw/pkg/agent"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func question(number int) *agent.ToolCallHookRequest {
	call := &agent.ToolCallHookRequest{Tool: "bash", Arguments: map[string]any{"command": "ls -la"}}
	if number > 0 {
		session := fmt.Sprintf("s%d", number)
		call.Meta = agent.HookMeta{AgentID: "main", TurnID: "turn-" + session, SessionKey: session, Iteration: 1}
	}
	return call
}

func median(count int, ask func(*agent.ToolCallHookRequest)) float64 {
	times := make([]float64, count)
	call := question(0)
	for index := range times {
		begun := time.Now()
		ask(call)
		times[index] = time.Since(begun).Seconds()
	}
	sort.Float64s(times)
	return times[count/2]
}

func together(count int, atOnce int, ask func(*agent.ToolCallHookRequest)) float64 {
	var waiting sync.WaitGroup
	begun := time.Now()
	for number := range atOnce {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			call := question(number + 1)
			for range count / atOnce {
				ask(call)
			}
		}()
	}
	waiting.Wait()
	return time.Since(begun).Seconds() / float64(count/atOnce*atOnce)
}

func main() {
	ctx := context.Background()
	hook, err := agent.NewProcessHook(ctx, "h", agent.ProcessHookOptions{Command: os.Args[1:], InterceptTool: true})
	must(err)
	manager := agent.NewHookManager(nil)
	must(manager.Mount(agent.HookRegistration{Name: "h", Source: agent.HookSourceProcess, Hook: hook}))
	ways := map[string]func(*agent.ToolCallHookRequest){
		"host": func(call *agent.ToolCallHookRequest) { manager.BeforeTool(ctx, call) },
		"hook": func(call *agent.ToolCallHookRequest) {
			_, _, err := hook.BeforeTool(ctx, call)
			must(err)
		},
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var way string
		var count, atOnce int
		_, err := fmt.Sscan(lines.Text(), &way, &count, &atOnce)
		must(err)
		ask, known := ways[way]
		if !known {
			must(fmt.Errorf("no way to ask is called %q", way))
		}
		if atOnce == 1 {
			fmt.Println(median(count, ask))
		} else {
			fmt.Println(together(count, atOnce, ask))
		}
	}
	manager.Close()
}
