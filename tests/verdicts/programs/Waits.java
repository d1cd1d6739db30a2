import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/** Comes to the state that its first argument names, and says `ready` before. */
class Waits {
    static final Object A = new Object(), B = new Object();

    static void ready() { System.out.println("ready"); System.out.flush(); }

    static void take(Object first, Object second, CountDownLatch both) {
        synchronized (first) {
            both.countDown();
            try { both.await(); } catch (InterruptedException e) { return; }
            synchronized (second) { System.out.println("impossible"); }
        }
    }

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "sleep": ready(); Thread.sleep(300_000); break;
            case "compute": ready(); for (long n = 0, sum = 0;; n++) { sum += n * n; if (sum == 42) System.out.println(sum); }
            case "deadlock": {
                CountDownLatch both = new CountDownLatch(2);
                new Thread(() -> take(A, B, both)).start();
                new Thread(() -> take(B, A, both)).start();
                both.await(); ready(); break;
            }
            case "locks": {
                ReentrantLock a = new ReentrantLock(), b = new ReentrantLock();
                CountDownLatch both = new CountDownLatch(2);
                Thread other = new Thread(() -> { b.lock(); both.countDown(); try { both.await(); } catch (InterruptedException e) { } a.lock(); });
                a.lock(); other.start(); both.countDown(); both.await(); ready(); b.lock(); break;
            }
            case "pool": {
                var pool = Executors.newFixedThreadPool(4);
                for (int i = 0; i < 4; i++) pool.submit(() -> 1).get();
                ready(); pool.awaitTermination(300, TimeUnit.SECONDS); break;
            }
            case "serve": { var s = new ServerSocket(0); ready(); s.accept(); break; }
            case "read": { var s = new Socket(args[1], Integer.parseInt(args[2])); ready(); s.getInputStream().read(); break; }
            case "input": System.out.print("name: "); System.out.flush(); System.in.read(); break;
            default: throw new IllegalArgumentException(args[0]);
        }
    }
}
