// gowaits MODE [ADDRESS]: comes to the state that MODE names, and says `ready` before.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

func main() {
	switch os.Args[1] {
	case "sleep":
		fmt.Println("ready")
		time.Sleep(300 * time.Second)
	case "child":
		fmt.Println("ready")
		exec.Command("sleep", "300").Run()
	case "compute":
		fmt.Println("ready")
		for n := 0; ; n++ {
		}
	case "serve":
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		listener.Accept()
	case "read":
		connection, err := net.Dial("tcp", os.Args[2])
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		connection.Read(make([]byte, 10))
	case "stuck":
		// A lock held for ever, with a listener elsewhere, so that the runtime does not see the deadlock.
		net.Listen("tcp", "127.0.0.1:0")
		var lock sync.Mutex
		lock.Lock()
		go func() { time.Sleep(300 * time.Second) }()
		fmt.Println("ready")
		lock.Lock()
	}
}
