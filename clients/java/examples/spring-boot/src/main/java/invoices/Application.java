package invoices;

import java.time.Duration;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import redislock.Locks;

@SpringBootApplication
class Application implements CommandLineRunner {
    private final Locks locks;

    Application(Locks locks) {
        this.locks = locks;
    }

    @Override
    public void run(String... args) throws Exception {
        try (var held = locks.acquire("invoice:42", options -> options.wait(Duration.ofSeconds(10)))) {
            System.out.println("held with fence " + held.fence());
        }
    }

    public static void main(String[] args) {
        SpringApplication.run(Application.class, args);
    }
}
