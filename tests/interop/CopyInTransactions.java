import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic in transactions up to where it ends, partition by partition, and prints a line for
 * each transaction. Any error ends it, and the caller begins it again.
 *
 * <p>Arguments: bootstrap servers, name of group and transactions, source, copy, records.
 */
public final class CopyInTransactions {
    public static void main(final String[] args) {
        final Properties reading = new Properties();
        reading.put("bootstrap.servers", args[0]);
        reading.put("group.id", args[1]);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("session.timeout.ms", "6000");
        reading.put("max.poll.records", "500");
        final Properties writing = new Properties();
        writing.put("bootstrap.servers", args[0]);
        writing.put("transactional.id", args[1]);
        writing.put("transaction.timeout.ms", "15000");
        final long wanted = Long.parseLong(args[4]);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(args[2]));
            long done = 0;
            while (done < wanted) {
                final ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                if (!records.isEmpty()) {
                    producer.beginTransaction();
                    final Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
                    for (final ConsumerRecord<byte[], byte[]> each : records) {
                        producer.send(
                            new ProducerRecord<>(args[3], each.partition(), each.key(), each.value()));
                        places.put(
                            new TopicPartition(args[2], each.partition()),
                            new OffsetAndMetadata(each.offset() + 1));
                    }
                    producer.sendOffsetsToTransaction(places, consumer.groupMetadata());
                    producer.commitTransaction();
                }
                done = 0;
                for (final TopicPartition each : consumer.assignment()) {
                    done += consumer.position(each);
                }
                System.out.println(done);
            }
        } catch (final RuntimeException error) {
            error.printStackTrace();
            // What is under way is left to its coordinator, as by a process that dies.
            Runtime.getRuntime().halt(1);
        }
    }
}
