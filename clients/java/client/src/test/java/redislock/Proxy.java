package redislock;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A way to the server of REDIS_URL that can be cut. */
final class Proxy implements AutoCloseable {
    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> all = ConcurrentHashMap.newKeySet();

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
                // as it is meant to be
            }
        }
        all.clear();
    }

    /** Nobody can reach the server any more. */
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

    private static void pass(Socket from, Socket to) throws IOException {
        try (from; to) {
            from.getInputStream().transferTo(to.getOutputStream());
        }
    }

    private static void start(Work work) {
        var thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException closed) {
                // as it is meant to be
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
