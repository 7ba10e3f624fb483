package redislock;

import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** Any reply of a lock command: null, a number, a list, or a text. Lettuce would treat "QUEUED" as a reply of MULTI. */
final class Reply extends CommandOutput<String, String, Object> {
    static final String QUEUED = "QUEUED";

    private record Open(List<Object> list, int size) {}

    private final Deque<Open> open = new ArrayDeque<>();

    Reply() {
        super(StringCodec.UTF8, QUEUED); // the value until another reply comes
    }

    @Override
    public void set(ByteBuffer text) {
        add(text == null ? null : codec.decodeValue(text));
    }

    @Override
    public void set(long number) {
        add(number);
    }

    @Override
    public void multi(int size) {
        if (size < 0) {
            add(null);
            return;
        }
        open.push(new Open(new ArrayList<>(), size));
        closeFull();
    }

    private void add(Object value) {
        if (open.isEmpty()) {
            output = value;
        } else {
            open.peek().list.add(value);
            closeFull();
        }
    }

    private void closeFull() {
        if (open.peek().list.size() == open.peek().size) add(open.pop().list);
    }
}
