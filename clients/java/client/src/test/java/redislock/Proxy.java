package redislock;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A TCP proxy for the server of REDIS_URL. It can be cut, or stop forwarding. */
final class Proxy implements AutoCloseable {
    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> all = ConcurrentHashMap.newKeySet();
    private volatile boolean still;

    Proxy() throws IOException {
        URI server = URI.create(System.getenv("REDIS_URL"));
        start(() -> {
            while (true) {
                Socket one = door.accept();
                Socket other = new Socket(server.getHost(), server.getPort());
                all.add(one);
                all.add(other);
                start(() -> pass(one, other));
                start(() -> pass(other, one));
                if (door.isClosed()) cut();
            }
        });
    }

    String url() {
        return "redis://127.0.0.1:" + door.getLocalPort();
    }

    /** Ends the connections, but others can be made. */
    void cut() {
        for (Socket each : all) {
            try {
                each.close();
            } catch (IOException closed) {
                // The connection was cut.
            }
        }
        all.clear();
    }

    /** Stops forwarding, as if the server had been stopped. */
    void freeze() {
        still = true;
    }

    /** Closes the port, so that nobody can reach the server any more. */
    void shut() throws IOException {
        door.close();
        cut();
    }

    @Override
    public void close() throws IOException {
        shut();
    }

    private interface Work {
        void run() throws IOException;
    }

    private void pass(Socket from, Socket to) throws IOException {
        try (from; to) {
            byte[] some = new byte[8192];
            for (int count; (count = from.getInputStream().read(some)) >= 0;) {
                if (!still) to.getOutputStream().write(some, 0, count);
            }
        }
    }

    private static void start(Work work) {
        var thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException closed) {
                // The proxy was closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
