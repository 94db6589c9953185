// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics
import Synchronization

/// Keeps metrics in memory and prints them as Prometheus text (exposition format 0.0.4). Labels and their values are constants of this
/// process or its settings and never text of a peer, so their number is bounded.
package final class PrometheusMetrics: MetricsFactory {
    struct Key: Hashable, Comparable {
        var name: String
        var labels: String
        static func < (left: Key, right: Key) -> Bool { (left.name, left.labels) < (right.name, right.labels) }
    }

    private let known: [String: MetricDescription]
    private let cells = Mutex<[Key: any MetricCell]>([:])
    private let sources = Mutex<[@Sendable () async -> [MetricSample]]>([])

    /// - Parameter known: Their help texts are printed, also while they have no value.
    package init(known: [MetricDescription] = []) {
        self.known = Dictionary(known.map { ($0.name, $0) }) { first, _ in first }
    }

    /// Adds values that are read for each print.
    package func add(_ source: @escaping @Sendable () async -> [MetricSample]) { sources.withLock { $0.append(source) } }

    /// All metrics that are kept here, sorted by name.
    package var text: String { text(with: []) }

    /// All metrics, also those that are read now.
    package func current() async -> String {
        var samples: [MetricSample] = []
        for source in sources.withLock({ $0 }) { samples += await source() }
        return text(with: samples)
    }

    private func text(with samples: [MetricSample]) -> String {
        var families: [String: (kind: MetricDescription.Kind, lines: [String])] = known.mapValues { ($0.kind, []) }
        for (key, cell) in cells.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
            families[key.name, default: (cell.kind, [])].lines += cell.lines(name: key.name, labels: key.labels)
        }
        for sample in samples {
            let line = MetricLine.text(sample.name, Self.labels(sample.labels), sample.value)
            families[sample.name, default: (.gauge, [])].lines.append(line)
        }
        var lines: [String] = []
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            if let help = known[name]?.help { lines.append("# HELP \(name) \(help)") }
            lines.append("# TYPE \(name) \(family.kind.rawValue)")
            lines += family.lines
        }
        return lines.map { $0 + "\n" }.joined()
    }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        cell(label, dimensions) { NumberCell(.counter) }
    }
    package func makeFloatingPointCounter(label: String, dimensions: [(String, String)]) -> any FloatingPointCounterHandler {
        cell(label, dimensions) { NumberCell(.counter) }
    }
    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        cell(label, dimensions) { NumberCell(.gauge) }
    }
    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        if aggregate { cell(label, dimensions) { HistogramCell() } } else { cell(label, dimensions) { NumberCell(.gauge) } }
    }
    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        cell(label, dimensions) { HistogramCell() }
    }
    package func destroyCounter(_ handler: any CounterHandler) { forget(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { forget(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { forget(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { forget(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { forget(handler) }

    /// The cell of a name and its labels. The first caller determines its kind; a cell of another kind is not kept.
    private func cell<Made: MetricCell>(_ label: String, _ dimensions: [(String, String)], _ make: () -> Made) -> Made {
        let key = Key(name: Self.name(label), labels: Self.labels(dimensions))
        return cells.withLock { cells in
            if let cell = cells[key] { return cell as? Made ?? make() }
            let cell = make()
            cells[key] = cell
            return cell
        }
    }

    private func forget(_ handler: AnyObject) {
        cells.withLock { cells in
            cells = cells.filter { $0.value !== handler }
        }
    }

    private static func name(_ label: String) -> String {
        let name = String(label.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
        return name.first?.isNumber ?? true ? "_" + name : name
    }

    private static func labels(_ dimensions: [(String, String)]) -> String {
        dimensions.sorted { $0.0 < $1.0 }.map { "\(name($0.0))=\"\(escape($0.1))\"" }.joined(separator: ",")
    }

    private static func escape(_ value: String) -> String {
        value.reduce(into: "") { text, character in
            switch character {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.append(character)
            }
        }
    }
}

/// A value that is read when the metrics are printed.
package struct MetricSample: Sendable {
    package var name: String
    package var value: Double
    package var labels: [(String, String)]

    package init(_ name: String, _ value: Double, labels: [(String, String)] = []) {
        self.name = name
        self.value = value
        self.labels = labels
    }
}

enum MetricLine {
    static func text(_ name: String, _ labels: String, _ value: Double) -> String {
        "\(name)\(labels.isEmpty ? "" : "{\(labels)}") \(number(value))"
    }

    static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value)
    }
}

protocol MetricCell: AnyObject, Sendable {
    var kind: MetricDescription.Kind { get }
    func lines(name: String, labels: String) -> [String]
}

/// The value of a counter or gauge.
final class NumberCell: MetricCell, CounterHandler, FloatingPointCounterHandler, MeterHandler, RecorderHandler {
    let kind: MetricDescription.Kind
    /// The bits of a `Double`. All accounts share the cell, so it has no lock.
    private let value = Atomic<UInt64>(0)

    init(_ kind: MetricDescription.Kind) { self.kind = kind }

    func increment(by amount: Int64) { add(Double(amount)) }
    func increment(by amount: Double) { add(amount) }
    func decrement(by amount: Double) { add(-amount) }
    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.store(value.bitPattern, ordering: .relaxed) }
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }
    func reset() { set(0.0) }

    private func add(_ amount: Double) {
        var old = value.load(ordering: .relaxed)
        while true {
            let new = (Double(bitPattern: old) + amount).bitPattern
            let (isExchanged, original) = value.compareExchange(expected: old, desired: new, ordering: .relaxed)
            if isExchanged { return }
            old = original
        }
    }

    func lines(name: String, labels: String) -> [String] {
        [MetricLine.text(name, labels, Double(bitPattern: value.load(ordering: .relaxed)))]
    }
}

/// How often values of each size occurred. Durations are in seconds.
final class HistogramCell: MetricCell, RecorderHandler, TimerHandler {
    private struct State {
        var counts = Array(repeating: 0, count: HistogramCell.bounds.count + 1)
        var sum = 0.0
    }

    /// The upper bounds of the buckets: from a commit to a fast disk to a request that has timed out.
    static let bounds: [Double] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    let kind = MetricDescription.Kind.histogram
    private let state = Mutex(State())

    func record(_ value: Int64) { record(Double(value)) }
    func record(_ value: Double) {
        let bucket = Self.bounds.firstIndex { value <= $0 } ?? Self.bounds.count
        state.withLock { state in
            state.counts[bucket] += 1
            state.sum += value
        }
    }
    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }
    func reset() { state.withLock { $0 = State() } }

    func lines(name: String, labels: String) -> [String] {
        let state = state.withLock { $0 }
        let others = labels.isEmpty ? "" : labels + ","
        var total = 0
        var lines: [String] = []
        for (bound, count) in zip(Self.bounds.map(MetricLine.number) + ["+Inf"], state.counts) {
            total += count
            lines.append("\(name)_bucket{\(others)le=\"\(bound)\"} \(total)")
        }
        return lines + [MetricLine.text("\(name)_sum", labels, state.sum), MetricLine.text("\(name)_count", labels, Double(total))]
    }
}
