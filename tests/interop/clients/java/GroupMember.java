import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * One member of a group with Apache Kafka's client: it reads, commits, and reports as
 * {@code tests/process/group_reading.py} describes.
 *
 * <p>Arguments: {@code classic} or {@code consumer}, bootstrap servers, group, topic.
 */
public final class GroupMember implements ConsumerRebalanceListener {
    private final KafkaConsumer<String, String> consumer;
    /** What was read and is not committed. */
    private final Map<TopicPartition, List<String>> uncommitted = new HashMap<>();

    private GroupMember(final KafkaConsumer<String, String> consumer) {
        this.consumer = consumer;
    }

    public static void main(final String[] args) {
        final Properties settings = new Properties();
        settings.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, args[0]);
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, args[1]);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, args[2]);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        if (args[0].equals("classic")) {
            settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6000);
            settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 300);
            settings.put(
                ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, CooperativeStickyAssignor.class.getName());
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            final GroupMember member = new GroupMember(consumer);
            consumer.subscribe(List.of(args[3]), member);
            member.readUntil(endOfInput());
        }
    }

    private static AtomicBoolean endOfInput() {
        final AtomicBoolean ended = new AtomicBoolean();
        final Thread reader = new Thread(() -> {
            try {
                System.in.transferTo(OutputStream.nullOutputStream());
            } catch (final IOException error) {
                error.printStackTrace();
            }
            ended.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        return ended;
    }

    private void readUntil(final AtomicBoolean ended) {
        while (!ended.get()) {
            for (final ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                final TopicPartition from = new TopicPartition(each.topic(), each.partition());
                uncommitted.computeIfAbsent(from, unused -> new ArrayList<>()).add(each.value());
            }
            commit();
        }
    }

    /** What cannot be committed now goes with the next commit, or is read by another member. */
    private void commit() {
        if (uncommitted.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync();
        } catch (final CommitFailedException | RetriableException refused) {
            return;
        }
        System.out.println(uncommitted.values().stream()
            .flatMap(List::stream)
            .map(value -> '"' + value + '"')
            .collect(Collectors.joining(",", "[", "]")));
        uncommitted.clear();
    }

    @Override
    public void onPartitionsAssigned(final Collection<TopicPartition> assigned) {
        report("got", assigned);
    }

    @Override
    public void onPartitionsRevoked(final Collection<TopicPartition> revoked) {
        commit();
        onPartitionsLost(revoked);
    }

    @Override
    public void onPartitionsLost(final Collection<TopicPartition> lost) {
        uncommitted.keySet().removeAll(lost);
        report("gave", lost);
    }

    /** {@code System.nanoTime} is CLOCK_MONOTONIC. */
    private static void report(final String word, final Collection<TopicPartition> partitions) {
        final List<Integer> numbers = partitions.stream().map(TopicPartition::partition).toList();
        final double at = System.nanoTime() / 1e9;
        System.out.println(String.format(Locale.ROOT, "{\"at\": %.6f, \"%s\": %s}", at, word, numbers));
    }
}
