// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import UIKit

/// A screen of labels, fields and buttons below each other. Its texts follow the person's text size.
class FormViewController: UIViewController {
    /// The tasks end with the screen.
    let work = Work()
    private let stack = UIStackView()
    private var observers: [Observer] = []

    override func viewDidLoad() {
        super.viewDidLoad()
        view.backgroundColor = .systemBackground
        let scroll = UIScrollView()
        stack.axis = .vertical
        stack.spacing = 12
        for part in [scroll, stack] { part.translatesAutoresizingMaskIntoConstraints = false }
        view.addSubview(scroll)
        scroll.addSubview(stack)
        let (frame, content) = (view.safeAreaLayoutGuide, scroll.contentLayoutGuide)
        NSLayoutConstraint.activate([
            scroll.topAnchor.constraint(equalTo: frame.topAnchor),
            scroll.bottomAnchor.constraint(equalTo: view.keyboardLayoutGuide.topAnchor),
            scroll.leadingAnchor.constraint(equalTo: frame.leadingAnchor, constant: 16),
            scroll.trailingAnchor.constraint(equalTo: frame.trailingAnchor, constant: -16),
            stack.topAnchor.constraint(equalTo: content.topAnchor, constant: 16),
            stack.bottomAnchor.constraint(equalTo: content.bottomAnchor, constant: -16),
            stack.leadingAnchor.constraint(equalTo: content.leadingAnchor),
            stack.trailingAnchor.constraint(equalTo: content.trailingAnchor),
            stack.widthAnchor.constraint(equalTo: scroll.frameLayoutGuide.widthAnchor),
        ])
    }

    override func viewDidDisappear(_ animated: Bool) {
        super.viewDidDisappear(animated)
        work.cancelAll()
    }

    func observe(_ show: @escaping () -> Void) { observers.append(Observer(show)) }

    @discardableResult func addLabel(_ style: UIFont.TextStyle = .body) -> UILabel {
        let label = UILabel()
        label.font = .preferredFont(forTextStyle: style)
        label.adjustsFontForContentSizeCategory = true
        label.numberOfLines = 0
        stack.addArrangedSubview(label)
        return label
    }

    /// A label that follows a notice; hidden without one.
    func addNotice(_ notice: @escaping () -> Notice?) {
        let label = addLabel()
        observe {
            label.isHidden = notice() == nil
            label.text = notice().map { NoticeText.text($0) }
            label.accessibilityLabel = notice()?.spoken
        }
    }

    func addField(_ name: String, _ text: @escaping () -> String, _ change: @escaping (String) -> Void) {
        let field = UITextField()
        field.placeholder = name
        field.accessibilityLabel = name
        field.borderStyle = .roundedRect
        field.font = .preferredFont(forTextStyle: .body)
        field.adjustsFontForContentSizeCategory = true
        field.autocorrectionType = .no
        field.autocapitalizationType = .none
        field.addAction(UIAction { [weak field] _ in change(field?.text ?? "") }, for: .editingChanged)
        stack.addArrangedSubview(field)
        observe { if field.text != text() { field.text = text() } }
    }

    @discardableResult func addButton(_ title: String, _ action: @escaping () -> Void) -> UIButton {
        let button = UIButton(configuration: .bordered(), primaryAction: UIAction(title: title) { _ in action() })
        button.titleLabel?.adjustsFontForContentSizeCategory = true
        button.titleLabel?.numberOfLines = 0
        stack.addArrangedSubview(button)
        return button
    }

    @discardableResult func addSwitch(_ name: String, _ change: @escaping (Bool) -> Void) -> UISwitch {
        let control = UISwitch()
        control.accessibilityLabel = name
        control.addAction(UIAction { [weak control] _ in change(control?.isOn ?? false) }, for: .valueChanged)
        let label = UILabel()
        label.text = name
        label.font = .preferredFont(forTextStyle: .body)
        label.adjustsFontForContentSizeCategory = true
        label.numberOfLines = 0
        label.isAccessibilityElement = false
        let line = UIStackView(arrangedSubviews: [label, control])
        line.spacing = 8
        stack.addArrangedSubview(line)
        return control
    }
}

enum NoticeText {
    /// The lines of a notice.
    static func text(_ notice: Notice) -> String {
        [notice.title, notice.reason, notice.nextStep, notice.code].filter { !$0.isEmpty }.joined(separator: "\n")
    }
}
#endif
